"""Copies of the whole log: taken while turns run, put back while nothing does."""

import contextlib
import os
import sqlite3
from pathlib import Path

from timothy import home as homes
from timothy.database import FILE_NAME, MIGRATIONS
from timothy.errors import StartError
from timothy.moment import stamp


class CopyRefused(StartError):
    """The copy cannot be made or put back; the message says why and what to do."""

    code = "copy_refused"


def backup(home: Path, target: Path) -> int:
    """A consistent copy of the log in one file, beside a running server; its bytes. Raises CopyRefused."""
    source = home / FILE_NAME
    if not source.is_file():
        raise CopyRefused(f"there is no database at {source}")
    if target.exists():
        raise CopyRefused(f"{target} exists already: choose another name")
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        _copy(source, draft)
        draft.rename(target)
    except (OSError, sqlite3.Error) as error:
        draft.unlink(missing_ok=True)
        raise CopyRefused(f"the copy to {target} failed: {error}") from error
    return target.stat().st_size


def restore(home: Path, file: Path) -> Path | None:
    """Put a backup in the log's place; returns where the old log went, or None. No server may run.

    Raises CopyRefused for a file that is no whole backup, HomeLocked while a server holds the home.
    """
    check(file)
    homes.prepare(home)
    with homes.lock(home):
        current = home / FILE_NAME
        aside = _set_aside(home, current) if current.exists() else None
        draft = current.with_suffix(".restoring")
        _copy(file, draft)
        draft.rename(current)
        return aside


def check(file: Path) -> None:
    """Raises CopyRefused unless `file` is a whole log that this Timothy can read."""
    if not file.is_file():
        raise CopyRefused(f"there is no file {file}")
    try:
        with contextlib.closing(
            sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        ) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            whole = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            connection.execute("SELECT COUNT(*) FROM session_events").fetchone()
    except sqlite3.Error as error:
        raise CopyRefused(f"{file} is no backup of a log: {error}") from error
    if whole != "ok":
        raise CopyRefused(f"{file} is damaged: {whole}")
    if version > len(MIGRATIONS):
        raise CopyRefused(f"{file} has version {version}, this Timothy knows up to {len(MIGRATIONS)}")


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with (
        contextlib.closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as origin,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode = delete")
    os.chmod(target, 0o600)


def _set_aside(home: Path, current: Path) -> Path:
    """The old log whole in one file under a name of its own; then it is out of the way, WAL and all."""
    aside = home / f"timothy.before-restore-{stamp().replace(':', '').replace('.', '-')}.db"
    _copy(current, aside)
    for suffix in ("", "-wal", "-shm"):
        current.with_name(current.name + suffix).unlink(missing_ok=True)
    return aside
