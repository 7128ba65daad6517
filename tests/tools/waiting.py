"""Waiting for facts, and looking at processes."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Fact = TypeVar("Fact")


def until(fact: Callable[[], Fact], seconds: float = 10) -> Fact:
    """The first true value of `fact`, asked often; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, f"did not happen within {seconds} s"
        time.sleep(0.01)
    return found


def processes(words: str) -> list[int]:
    """The ids of the living processes whose command line holds `words`."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if (
                folder.name.isdigit()
                and words in (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            ):
                found.append(int(folder.name))
    return found


def below(ancestor: int) -> list[int]:
    """The ids of all processes that descend from `ancestor`."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit():
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, unseen = list[int](), [ancestor]
    while unseen:
        more = children.get(unseen.pop(), [])
        found += more
        unseen += more
    return found
