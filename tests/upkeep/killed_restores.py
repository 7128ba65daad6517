"""Restore a backup again and again, killed at one step after the other; print what each kill left.

    killed_restores.py FOLDER BACKUP HOME

A step is whatever touches the disk by name. Each line: the step, "old", "new" or what is wrong.
"""

import hashlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from timothy.eventlog import files
from timothy.upkeep import copies, doctor

STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect")
DONE, KILLED = 0, 9


def restore(home: Path, backup: Path, step: int) -> int:
    """Restore in a child that dies before its step number `step`; the child's exit status."""
    child = os.fork()
    if child == 0:
        left = step

        def die(event: str, _: object) -> None:
            nonlocal left
            if event in STEPS:
                left -= 1
                if left == 0:
                    os._exit(KILLED)

        sys.addaudithook(die)
        copies.restore(home, backup)
        os._exit(DONE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def rows(path: Path) -> list[tuple[object, ...]]:
    """All rows of the log."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT * FROM session_events ORDER BY id").fetchall()
    connection.close()
    return found


def state(home: Path, old: list[object], new: list[object]) -> str:
    """Which log is there, and whether all is well with it and its files."""
    broken = [finding for finding in doctor.examine(home) if finding.level == "broken"]
    for path in files.folder(home).iterdir():
        if len(path.name) == 64 and hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
            return f"the file {path.name} is damaged"
    found = rows(home / "timothy.db")
    return str(broken or {str(old): "old", str(new): "new"}.get(str(found), "neither"))


def main(folder: Path, backup: Path, original: Path) -> None:
    """Kill at step 1, 2, 3 ... until a restore comes to its end."""
    old, new = rows(original / "timothy.db"), rows(backup)
    status, step = KILLED, 0
    while status == KILLED:
        step += 1
        home = folder / f"home{step}"
        shutil.copytree(original, home)
        status = restore(home, backup, step)
        print(step, state(home, old, new))
        if status == KILLED and state(home, old, new) == "old":  # what was left behind is in nobody's way
            assert restore(home, backup, 0) == DONE and state(home, old, new) == "new"
        shutil.rmtree(home)


main(*map(Path, sys.argv[1:]))
