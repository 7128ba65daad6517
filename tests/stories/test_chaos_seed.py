"""After kills, cuts and impatient clients, an independent checker finds that nothing was lost."""

import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "scripts" / "chaos_run.py"

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", "1", "--turns", "80", "--kills", "4"],
        ["--seed", "2", "--turns", "60", "--mode", "steps"],
    ],
    ids=["sudden", "step-by-step"],
)
def test_nothing_is_lost_through_kills_and_cuts(arguments: list[str]) -> None:
    command = [sys.executable, str(HARNESS), "--clients", "8", "--minutes", "0.3", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "every rule holds" in ran.stdout
