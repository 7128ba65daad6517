"""Copies of the whole log and its attached files: taken while turns run, put back while nothing does."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from timothy import home as homes
from timothy.database import FILE_NAME
from timothy.errors import StartError
from timothy.eventlog import files
from timothy.moment import stamp
from timothy.schema import MIGRATIONS
from timothy.upkeep import attached


class CopyRefused(StartError):
    """The copy cannot be made or put back; the message says why and what to do."""

    code = "copy_refused"


class Copied(msgspec.Struct, frozen=True):
    """A backup: its size in bytes, how many attached files are in it, the hashes of those that are lost."""

    size: int
    files: int
    lost: list[str]


def backup(home: Path, target: Path) -> Copied:
    """A consistent copy of the log and the files that it names, in one file, also beside a running server.

    The file is an SQLite database. Raises CopyRefused.
    """
    if not (home / FILE_NAME).is_file():
        raise CopyRefused(f"there is no database at {home / FILE_NAME}")
    if target.exists():
        raise CopyRefused(f"{target} exists already: choose another name")
    with _told(f"the copy to {target} failed", target.parent):
        return _backup(home, target)


def restore(home: Path, file: Path) -> Path | None:
    """Put a backup in the log's place; returns where the old log went, or None. No server may run.

    Whatever interrupts it, the home has the old log or the new one, whole, each with its files.
    Raises CopyRefused for a file that is no whole backup, HomeLocked while a server holds the home.
    """
    check(file)
    homes.prepare(home)
    current = home / FILE_NAME
    with (
        homes.lock(home),
        _told("nothing was restored, the log is as it was", home),
        _draft(current, "restoring") as draft,
    ):
        attached.unpack(file, home)
        _copy_log(file, draft)
        return _set_aside(home, current) if current.exists() else None


def check(file: Path) -> None:
    """Raises CopyRefused unless `file` is a whole log that this Timothy can read."""
    if not file.is_file():
        raise CopyRefused(f"there is no file {file}")
    try:
        with contextlib.closing(_read_only(file)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            whole = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            connection.execute("SELECT COUNT(*) FROM session_events").fetchone()
    except sqlite3.Error as error:
        raise CopyRefused(f"{file} is no backup of a log: {error}") from error
    if whole != "ok":
        raise CopyRefused(f"{file} is damaged: {whole}")
    if version > len(MIGRATIONS):
        raise CopyRefused(f"{file} has version {version}, this Timothy knows up to {len(MIGRATIONS)}")


def _backup(home: Path, target: Path) -> Copied:
    with files.hold(home):  # what the copied log names stays until it is copied, too
        with _draft(target, str(os.getpid())) as draft:
            _copy(home / FILE_NAME, draft)
            count, lost = attached.pack(home, draft)
        return Copied(target.stat().st_size, count, lost)


def _copy_log(backup: Path, draft: Path) -> None:
    """The log of a backup, as a server uses it: without the files that lie in it."""
    with contextlib.closing(_read_only(backup)) as connection:
        packed = attached.packed(connection)
    if not packed:
        _copy(backup, draft)
        return
    with _scratch(draft.with_name(f"{draft.name}.whole")) as whole:
        _copy(backup, whole)
        attached.strip(whole, draft)


def _set_aside(home: Path, current: Path) -> Path:
    """The old log whole under a name of its own, as a backup; what is left can be overwritten at once."""
    aside = home / f"timothy.before-restore-{stamp().replace(':', '').replace('.', '-')}.db"
    try:
        with contextlib.closing(_read_only(current)) as connection:  # leaves a damaged one as it is
            connection.execute("SELECT COUNT(*) FROM session_events").fetchone()
        _fold(current)
        _backup(home, aside)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # locked, or the disk: it may well be sound
            raise
        _set_damaged_aside(home, current, aside)  # it has no such table: its first start broke off
    except sqlite3.DatabaseError:
        _set_damaged_aside(home, current, aside)
    return aside


def _fold(current: Path) -> None:
    """End the WAL: the log is one file again. A WAL of the old log would be taken for the new one's."""
    with contextlib.closing(sqlite3.connect(current, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = delete")


def _set_damaged_aside(home: Path, current: Path, aside: Path) -> None:
    """Byte by byte, with all attached files: what it names cannot be known."""
    beside = {suffix: current.with_name(current.name + suffix) for suffix in ("", "-wal", "-shm")}
    for suffix, part in beside.items():
        if part.exists():
            shutil.copy(part, aside.with_name(aside.name + suffix))
    if files.folder(home).is_dir():
        shutil.copytree(files.folder(home), aside.with_suffix(".attachments"))
    for suffix in ("-wal", "-shm"):
        beside[suffix].unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    with (
        contextlib.closing(_read_only(source)) as origin,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode = delete")


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


@contextlib.contextmanager
def _draft(target: Path, tag: str) -> Iterator[Path]:
    """An empty file beside `target` that takes its place, all at once, if all goes well."""
    with _scratch(target.with_name(f".{target.name}.{tag}.new")) as draft:
        yield draft
        files.settle(draft)
        draft.rename(target)
        files.settle(target.parent)


@contextlib.contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """An empty file, readable by its owner alone, that is gone at the end."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        yield path
    finally:
        for suffix in ("", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


@contextlib.contextmanager
def _told(failure: str, folder: Path) -> Iterator[None]:
    """What fails in here is refused in words. Raises CopyRefused."""
    try:
        yield
    except files.Damaged as error:
        raise CopyRefused(f"{failure}: the attached file {error} in the backup is damaged") from error
    except (OSError, sqlite3.Error) as error:
        free = (
            f" ({shutil.disk_usage(folder).free >> 20:,} MB are free in {folder})" if folder.is_dir() else ""
        )
        raise CopyRefused(f"{failure}: {error}{free}") from error
