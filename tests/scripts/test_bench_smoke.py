"""Every benchmark runs to its verdict at a tiny size. No figure is judged here."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TURNS = ["--tokens", "200", "--turns", "2", "--seconds", "0.2", "--rounds", "1", "--together", "2"]

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("part", "options", "targets"),
    [
        ("turns", TURNS, 8),
        ("recovery", ["--sessions", "20", "--unfinished", "5"], 1),
        ("memory", ["--tokens", "3000"], 1),
        ("search", ["--sessions", "20", "--turns", "2"], 2),
    ],
)
def test_a_benchmark_comes_to_its_verdict(part: str, options: list[str], targets: int) -> None:
    command = [sys.executable, str(SCRIPTS / f"bench_{part}.py"), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = ran.stdout.partition("\ntargets\n")[2].splitlines()
    verdicts = [line.split()[0] for line in lines]
    assert len(verdicts) == targets, ran.stdout + ran.stderr
    assert ran.returncode == (1 if "MISS" in verdicts else 0)
