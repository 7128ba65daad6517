"""Attached files inside a backup: a table of the copied log, written and read piece by piece."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path

from timothy.eventlog import files
from timothy.schema import FILE_HASH, WITH_FILES

TABLE = "backup_attachments"
PIECE_BYTES = 1 << 20

# What is no JSON, or no object, names no file; other checks tell of it.
_NAMED = f"""
SELECT session_id, seq, {FILE_HASH}
FROM session_events, json_each(CASE WHEN json_valid(payload) THEN payload ELSE '{{}}' END, '$.attachments')
WHERE {WITH_FILES}
"""


def named(connection: sqlite3.Connection) -> list[tuple[str, int, str]]:
    """Where the log names files: session, seq and the file's hash, in the log's order."""
    rows = connection.execute(f"{_NAMED} ORDER BY session_id, seq").fetchall()
    return [(session_id, seq, str(digest)) for session_id, seq, digest in rows if digest is not None]


def pack(home: Path, copy: Path) -> tuple[int, list[str]]:
    """Put all files that the copied log names into it; how many, and the hashes of those that are lost.

    A file counts as lost when it is not in the home, or is not what its hash says.
    Memory holds a piece at a time. Raises OSError, sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = off")  # a copy that fails is thrown away
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} (name TEXT NOT NULL UNIQUE, bytes BLOB NOT NULL)")
        digests = sorted({digest for _, _, digest in named(connection)})
        lost = [digest for digest in digests if not _pack(connection, files.path(home, digest))]
    return len(digests) - len(lost), lost


def _pack(connection: sqlite3.Connection, path: Path | None) -> bool:
    if path is None or not path.is_file():
        return False
    found = hashlib.sha256()
    with open(path, "rb") as file:
        room = (path.name, os.fstat(file.fileno()).st_size)
        row = connection.execute(f"INSERT INTO {TABLE} (name, bytes) VALUES (?, zeroblob(?))", room).lastrowid
        assert row is not None
        with connection.blobopen(TABLE, "bytes", row) as blob:
            while piece := file.read(PIECE_BYTES):
                found.update(piece)
                blob.write(piece)
    if found.hexdigest() == path.name:
        return True
    connection.execute(f"DELETE FROM {TABLE} WHERE rowid = ?", (row,))
    return False


def packed(connection: sqlite3.Connection) -> bool:
    """Whether there are files in this copy of a log: older backups have none."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall())


def unpack(backup: Path, home: Path) -> int:
    """Put the backup's files into the home, each whole; how many. Raises OSError, files.Damaged."""
    with contextlib.closing(sqlite3.connect(f"{backup.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        if not packed(connection):
            return 0
        rows = connection.execute(f"SELECT rowid, name FROM {TABLE}").fetchall()
        for row, name in rows:
            with contextlib.closing(_pieces(connection, row)) as pieces:
                files.put(home, str(name), pieces)
    return len(rows)


def _pieces(connection: sqlite3.Connection, row: int) -> Generator[bytes, None, None]:
    with connection.blobopen(TABLE, "bytes", row, readonly=True) as blob:
        while piece := blob.read(PIECE_BYTES):
            yield piece


def strip(copy: Path, target: Path) -> None:
    """Write the copied log without its files to `target`, which must not be there or be empty."""
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = off")
        connection.execute(f"DROP TABLE {TABLE}")
        connection.execute("VACUUM INTO ?", (str(target),))
