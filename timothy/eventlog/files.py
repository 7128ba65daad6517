"""The home's attached files: each kept once under its hash, for as long as a session's log names it."""

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from timothy.database import FILE_NAME, open_database
from timothy.eventlog import queries
from timothy.home import private

LOCK_FILE = "attachments.lock"
_HASH = re.compile(r"[0-9a-f]{64}")
_DRAFT = re.compile(r"[0-9a-f]{64}\.\w+\.new")


class Damaged(Exception):
    """What should be kept under a hash has another one; the message is the hash that it should have."""


def folder(home: Path) -> Path:
    """Where the files are, each named by its hash (SHA-256, in hex)."""
    return home / "attachments"


def path(home: Path, digest: str) -> Path | None:
    """Where the file with this hash is, or would be; None for what is no hash."""
    return folder(home) / digest if _HASH.fullmatch(digest) else None


def stored(home: Path) -> dict[str, int]:
    """The hashes of all files that are there, each with its size in bytes. Raises OSError."""
    found: dict[str, int] = {}
    if folder(home).is_dir():
        with os.scandir(folder(home)) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                    if _HASH.fullmatch(entry.name):
                        found[entry.name] = entry.stat().st_size
    return found


def put(home: Path, digest: str, pieces: Iterable[bytes]) -> None:
    """Store a file, whole or not at all; on return it is on the disk.

    The same one may be stored by several at once. Raises OSError, Damaged when the pieces have another hash.
    """
    target = path(home, digest)
    if target is None:
        raise Damaged(digest)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=f"{digest}.", suffix=".new", dir=target.parent)
    draft = Path(name)
    found = hashlib.sha256()
    try:
        with open(descriptor, "wb") as file:
            for piece in pieces:
                found.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if found.hexdigest() != digest:
            raise Damaged(digest)
        draft.rename(target)
        settle(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def settle(path: Path) -> None:
    """On return, what was written to the file or the folder is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hold(home: Path) -> IO[str]:
    """No file goes until the returned one is closed, or this process dies. Raises OSError.

    Who keeps files for a message holds them until the message is in the log, or is not going to be.
    """
    file = open(private(home / LOCK_FILE), "a", encoding="ascii")  # noqa: SIM115  the caller closes it
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def tidy(home: Path) -> list[str]:
    """Remove the files that no session's log names, and return their names. None while anyone holds them.

    Raises OSError, or peewee's and sqlite's errors when the log cannot be read: then nothing goes.
    """
    if not folder(home).is_dir():
        return []
    with open(private(home / LOCK_FILE), "a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody sends or copies: the next time will do
            return []
        named = _named(home)  # under the lock, when nobody is about to name one more
        gone = [entry for entry in sorted(folder(home).iterdir()) if _ours(entry.name)]
        gone = [entry for entry in gone if entry.name not in named]
        for entry in gone:
            entry.unlink()
        return [entry.name for entry in gone]


def _named(home: Path) -> set[str]:
    with contextlib.closing(open_database(home / FILE_NAME, read_only=True)) as database:
        return queries.attached(database)


def _ours(name: str) -> bool:
    return bool(_HASH.fullmatch(name) or _DRAFT.fullmatch(name))
