"""Everything that can be wrong in a home: the log's promises, the file they are in, what lies around it."""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from timothy.database import FILE_NAME
from timothy.eventlog import files
from timothy.schema import MIGRATIONS
from timothy.tools.mcp import ServerStatus
from timothy.upkeep import attached
from timothy.upkeep.promises import CHECKS

WAL_WARNING_BYTES = 256 << 20
DISK_WARNING_BYTES = 200 << 20


class Finding(msgspec.Struct, frozen=True):
    """A check and one row that breaks it; `level` is `broken`, or `notice` for what needs no repair."""

    check: str
    level: str
    row: str
    message: str


class NoDatabase(Exception):
    """There is nothing to check; the message says where it was looked for."""


def examine(home: Path) -> list[Finding]:
    """Everything that is wrong with the log in `home`; works beside a running server. Raises NoDatabase."""
    path = home / FILE_NAME
    if not path.is_file():
        raise NoDatabase(f"there is no database at {path}")
    with contextlib.closing(_connect(path)) as connection:
        try:
            connection.execute("BEGIN")  # one snapshot for all checks
            log = [*_file(connection, path), *_invariants(connection)]
            return [*log, *_attached(connection, home), *_surroundings(path)]
        except sqlite3.DatabaseError as error:
            return [Finding("readable", "broken", str(path), f"the database cannot be read: {error}")]


def tool_servers(statuses: Iterable[ServerStatus]) -> list[Finding]:
    """A notice for every MCP server that offers no tools now, or not all; the log is whole all the same."""
    return [
        Finding("tool_server", "notice", status.name, message)
        for status in statuses
        for message in _of_server(status)
    ]


def _of_server(status: ServerStatus) -> Iterator[str]:
    if status.state != "ready":
        yield status.error or f"it is {status.state}"
    for reason, count in status.left_out.items():
        yield f"{count} of its tools cannot be offered: {reason}"


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5)


def _file(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version != len(MIGRATIONS):
        known = f"this Timothy writes version {len(MIGRATIONS)}"
        yield Finding("version", "notice", str(path), f"it has version {version}; {known}")
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Finding("integrity", "broken", str(path), line)


def _invariants(connection: sqlite3.Connection) -> Iterator[Finding]:
    for check, query in CHECKS.items():
        for row, message in connection.execute(query):
            yield Finding(check, "broken", row, message)
    for (turn_id,) in connection.execute("SELECT id FROM turns WHERE state != 'ended'"):
        message = "it runs now, or the next start will end it as interrupted"
        yield Finding("unfinished", "notice", f"turn {turn_id}", message)


def _attached(connection: sqlite3.Connection, home: Path) -> Iterator[Finding]:
    """Files that the log names and that are not there; a file counts when it was there before or after."""
    there = files.stored(home)
    named = attached.named(connection)
    there |= files.stored(home)
    for session_id, seq, digest in named:
        if digest not in there:
            row = f"session {session_id} seq {seq}"
            yield Finding("attached_file", "broken", row, f"the attached file {digest} is not in the home")
    forgotten = there.keys() - {digest for _, _, digest in named}
    if forgotten:
        size = sum(there[digest] for digest in forgotten)
        message = (
            f"{len(forgotten)} files ({size:,} bytes) that no session names; the next start removes them"
        )
        yield Finding("forgotten_files", "notice", str(files.folder(home)), message)


def _surroundings(path: Path) -> Iterator[Finding]:
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > WAL_WARNING_BYTES:
        yield Finding("wal_size", "notice", str(wal), f"it has grown to {size >> 20} MB")
    free = shutil.disk_usage(path.parent).free
    if free < DISK_WARNING_BYTES:
        yield Finding("free_disk", "notice", str(path.parent), f"only {free >> 20} MB are free")
