"""Restore a backup again and again, killed at one step after the other; print what each kill left.

    killed_restores.py FOLDER BACKUP HOME

A step is whatever touches the disk by name. Each line: the step, "old", "new" or what is wrong.
"""

import hashlib
import os
import re
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
        more = step

        def die(event: str, _: object) -> None:
            nonlocal more
            if event in STEPS:
                more -= 1
                if more == 0:
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


def left(home: Path) -> frozenset[tuple[str, int]]:
    """What lies in the home: the name of each file, without the time in it, and its size."""
    found = (path for path in home.rglob("*") if path.is_file())
    return frozenset((re.sub(r"[0-9TZ-]{10,}", "", path.name), path.stat().st_size) for path in found)


def main(folder: Path, backup: Path, original: Path) -> None:
    """Kill at step 1, 2, 3 ... until a restore comes to its end."""
    old, new = rows(original / "timothy.db"), rows(backup)
    status, step = KILLED, 0
    seen = set[frozenset[tuple[str, int]]]()
    while status == KILLED:
        step += 1
        home = folder / f"home{step}"
        shutil.copytree(original, home)
        status = restore(home, backup, step)
        remains, found = left(home), state(home, old, new)
        print(step, found)
        if status == KILLED and found == "old" and remains not in seen:
            # what was left behind is in nobody's way
            assert restore(home, backup, 0) == DONE and state(home, old, new) == "new"
        seen.add(remains)
        shutil.rmtree(home)


main(*map(Path, sys.argv[1:]))
