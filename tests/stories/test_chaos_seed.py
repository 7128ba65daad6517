"""After kills, cuts and impatient clients, an independent checker finds that nothing was lost."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "scripts" / "chaos_run.py"
SUMMARY = re.compile(r"(\d+) turns, (\d+) kills, .*: every rule holds$", re.MULTILINE)

pytestmark = pytest.mark.once


def chaos(*arguments: str) -> tuple[int, int]:
    """Turns and kills of a short run that found no breach."""
    command = [sys.executable, str(HARNESS), "--clients", "4", "--minutes", "0.1", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = SUMMARY.search(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert found is not None, ran.stdout
    return int(found[1]), int(found[2])


def test_sudden_deaths_lose_nothing() -> None:
    turns, kills = chaos("--seed", "1", "--turns", "16", "--kills", "1")
    assert turns > 0
    assert kills > 0


def test_deaths_at_named_steps_lose_nothing() -> None:
    turns, kills = chaos("--seed", "2", "--turns", "8", "--mode", "steps")
    assert turns > 0
    assert kills > 0
