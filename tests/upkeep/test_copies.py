"""A copy of the log is whole, and puts back exactly what it was made of."""

import contextlib
import hashlib
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.upkeep.conftest import SESSION, attach, begin, end, fresh, write
from timothy import home as homes
from timothy.cli import main
from timothy.database import FILE_NAME, open_database
from timothy.errors import HomeLocked
from timothy.eventlog import files
from timothy.eventlog.records import ChangeSettings, DeleteSession, UpdateSession
from timothy.eventlog.settings import stored
from timothy.schema import MIGRATIONS, migrate
from timothy.upkeep import attached, copies
from timothy.upkeep.doctor import examine


def rows(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute(
        "SELECT session_id, seq, kind, payload FROM session_events ORDER BY id"
    ).fetchall()
    connection.close()
    return found


@pytest.mark.usefixtures("impatient")
def test_a_backup_holds_every_row_also_what_is_only_in_the_wal(home: Path, tmp_path: Path) -> None:
    reader = sqlite3.connect(home / FILE_NAME)
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT * FROM turns").fetchall()  # keeps the WAL from being folded in
    write(home, UpdateSession(append_id=fresh(), session_id=SESSION, title="newer"))
    copies.backup(home, tmp_path / "copy.db")
    reader.close()
    assert rows(tmp_path / "copy.db") == rows(home / FILE_NAME)
    assert rows(tmp_path / "copy.db")[-1][2] == "title_set"


def test_a_restore_brings_back_the_log_and_keeps_the_one_that_was_there(home: Path, tmp_path: Path) -> None:
    before = rows(home / FILE_NAME)
    copies.backup(home, tmp_path / "copy.db")
    write(home, begin("44444444-4444-4444-8444-444444444444"), end("44444444-4444-4444-8444-444444444444"))
    after = rows(home / FILE_NAME)
    aside = copies.restore(home, tmp_path / "copy.db")
    assert aside is not None
    assert (rows(home / FILE_NAME), rows(aside)) == (before, after)
    assert examine(home) == []


def settings(home: Path) -> dict[str, str]:
    database = open_database(home / FILE_NAME, read_only=True)
    found = stored(database)
    database.close()
    return found


def test_a_copy_takes_what_a_person_set_along(home: Path, tmp_path: Path) -> None:
    mine = {"notify.ntfy": "https://ntfy.example/mine"}
    write(home, ChangeSettings(append_id=fresh(), session_id="", values=dict(mine)))
    copies.backup(home, tmp_path / "copy.db")
    write(home, ChangeSettings(append_id=fresh(), session_id="", values={"notify.ntfy": None}))
    copies.restore(home, tmp_path / "copy.db")
    assert settings(home) == mine
    assert examine(home) == []


def test_a_copy_of_an_older_version_is_put_back_and_brought_up(tmp_path: Path) -> None:
    old, home = tmp_path / "old.db", tmp_path / "home"
    migrate(old, MIGRATIONS[:2])
    copies.restore(home, old)
    assert [finding.check for finding in examine(home)] == ["version"]
    assert migrate(home / FILE_NAME) == 2
    assert (settings(home), examine(home)) == ({}, [])


def test_a_restore_into_an_empty_home_needs_nothing_else(home: Path, tmp_path: Path) -> None:
    copies.backup(home, tmp_path / "copy.db")
    assert copies.restore(tmp_path / "new", tmp_path / "copy.db") is None
    assert rows(tmp_path / "new" / FILE_NAME) == rows(home / FILE_NAME)


def test_a_backup_overwrites_nothing(home: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(copies.CopyRefused, match="exists already"):
        copies.backup(home, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_no_restore_while_a_server_holds_the_home(home: Path, tmp_path: Path) -> None:
    copies.backup(home, tmp_path / "copy.db")
    with homes.lock(home), pytest.raises(HomeLocked):
        copies.restore(home, tmp_path / "copy.db")


@pytest.mark.parametrize("content", [b"", b"no database at all, only words" * 100])
def test_a_file_that_is_no_backup_is_refused_and_the_log_stays(
    home: Path, tmp_path: Path, content: bytes
) -> None:
    before = rows(home / FILE_NAME)
    (tmp_path / "bad.db").write_bytes(content)
    with pytest.raises(copies.CopyRefused, match="no backup"):
        copies.restore(home, tmp_path / "bad.db")
    assert rows(home / FILE_NAME) == before


def contents(home: Path) -> dict[str, str]:
    """The kept files, each by its name with its hash."""
    found = files.folder(home).iterdir() if files.folder(home).is_dir() else []
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def tables(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    connection.close()
    return [name for (name,) in found]


def test_attached_files_are_in_the_one_file_and_come_back_in_another_home(home: Path, tmp_path: Path) -> None:
    digests = attach(home, "", "small", "more than a piece " * 100_000)
    attach(home, "small")
    files.put(home, hashlib.sha256(b"forgotten").hexdigest(), [b"forgotten"])
    copied = copies.backup(home, tmp_path / "copy.db")
    assert (copied.files, copied.lost) == (3, [])
    assert copied.size == (tmp_path / "copy.db").stat().st_size > 1_800_000
    copies.restore(tmp_path / "new", tmp_path / "copy.db")
    assert contents(tmp_path / "new") == {digest: digest for digest in digests}
    assert tables(tmp_path / "new" / FILE_NAME) == tables(home / FILE_NAME)
    assert rows(tmp_path / "new" / FILE_NAME) == rows(home / FILE_NAME)
    assert (tmp_path / "new" / FILE_NAME).stat().st_size < 500_000
    assert examine(tmp_path / "new") == []


def test_a_backup_is_a_database_like_any_other(home: Path, tmp_path: Path) -> None:
    (digest,) = attach(home, "hello")
    copies.backup(home, tmp_path / "copy.db")
    connection = sqlite3.connect(tmp_path / "copy.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("SELECT name, bytes FROM backup_attachments").fetchall() == [(digest, b"hello")]
    connection.close()
    assert rows(tmp_path / "copy.db") == rows(home / FILE_NAME)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_a_backup_of_the_older_kind_leaves_the_files_as_they_are(home: Path, tmp_path: Path) -> None:
    (digest,) = attach(home, "hello")
    copies.backup(home, tmp_path / "copy.db")
    connection = sqlite3.connect(tmp_path / "copy.db")
    connection.execute("DROP TABLE backup_attachments")
    connection.close()
    before = rows(home / FILE_NAME)
    copies.restore(home, tmp_path / "copy.db")
    assert (rows(home / FILE_NAME), contents(home)) == (before, {digest: digest})


def test_what_is_lost_is_named_and_the_rest_is_copied(home: Path, tmp_path: Path) -> None:
    missing, damaged, sound = attach(home, "missing", "damaged", "sound")
    (files.folder(home) / missing).unlink()
    (files.folder(home) / damaged).write_bytes(b"otherwise")
    ran = CliRunner().invoke(main, ["backup", str(tmp_path / "copy.db"), "--home", str(home)])
    assert (ran.exit_code, "with 1 attached files" in ran.stdout) == (0, True)
    assert missing in ran.stderr and damaged in ran.stderr and sound not in ran.stderr
    copies.restore(tmp_path / "new", tmp_path / "copy.db")
    assert contents(tmp_path / "new") == {sound: sound}


def test_a_damaged_file_in_a_backup_is_named_and_the_log_stays(home: Path, tmp_path: Path) -> None:
    (digest,) = attach(home, "hello")
    copies.backup(home, tmp_path / "copy.db")
    before = rows(home / FILE_NAME)
    for change in ("bytes = x'00'", "name = '../../escaped'"):
        connection = sqlite3.connect(tmp_path / "copy.db", isolation_level=None)
        connection.execute(f"UPDATE backup_attachments SET {change}")
        connection.close()
        with pytest.raises(copies.CopyRefused, match=r"log is as it was: the attached file .* is damaged"):
            copies.restore(home, tmp_path / "copy.db")
    assert (rows(home / FILE_NAME), contents(home)) == (before, {digest: digest})


def test_the_log_that_was_there_is_set_aside_with_its_files(home: Path, tmp_path: Path) -> None:
    copies.backup(home, tmp_path / "copy.db")
    (digest,) = attach(home, "hello")
    before = rows(home / FILE_NAME)
    aside = copies.restore(home, tmp_path / "copy.db")
    assert aside is not None
    assert files.tidy(home) == [digest]
    copies.restore(home, aside)
    assert (rows(home / FILE_NAME), contents(home)) == (before, {digest: digest})


@pytest.mark.parametrize("statements", ["", "CREATE TABLE other (id INTEGER)"])
def test_a_log_without_its_tables_is_set_aside_as_it_is_and_replaced(
    home: Path, tmp_path: Path, statements: str
) -> None:
    copies.backup(home, tmp_path / "copy.db")
    other = tmp_path / "other"
    other.mkdir()
    with contextlib.closing(sqlite3.connect(other / FILE_NAME)) as connection:
        connection.executescript(statements)
    (other / FILE_NAME).touch()
    before = (other / FILE_NAME).read_bytes()
    aside = copies.restore(other, tmp_path / "copy.db")
    assert aside is not None and aside.read_bytes() == before
    assert rows(other / FILE_NAME) == rows(home / FILE_NAME)


def test_a_damaged_log_is_set_aside_as_it_is_and_replaced(home: Path, tmp_path: Path) -> None:
    (digest,) = attach(home, "hello")
    copies.backup(home, tmp_path / "copy.db")
    before = rows(home / FILE_NAME)
    (home / FILE_NAME).write_bytes(b"not a database any more" * 1000)
    (home / f"{FILE_NAME}-wal").write_bytes(b"its WAL")
    aside = copies.restore(home, tmp_path / "copy.db")
    assert aside is not None
    assert aside.read_bytes() == b"not a database any more" * 1000
    assert aside.with_name(f"{aside.name}-wal").read_bytes() == b"its WAL"
    assert [path.name for path in aside.with_suffix(".attachments").iterdir()] == [digest]
    assert rows(home / FILE_NAME) == before
    assert examine(home) == []


@pytest.mark.once
def test_a_restore_that_is_killed_at_any_step_leaves_a_whole_log(home: Path, tmp_path: Path) -> None:
    attach(home, "both")
    copies.backup(home, tmp_path / "copy.db")
    attach(home, "old")
    original = tmp_path / "original"
    shutil.copytree(files.folder(home), files.folder(original))
    shutil.copy(home / FILE_NAME, original)
    (tmp_path / "killed").mkdir()
    arguments = [str(tmp_path / "killed"), str(tmp_path / "copy.db"), str(original)]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.upkeep.killed_restores", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    states = [line.split(" ", 1)[1] for line in ran.stdout.splitlines()]
    assert set(states) == {"old", "new"} and states == sorted(states, reverse=True), ran.stdout
    assert len(states) > 10


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
from timothy.cli import main
main()
"""


@pytest.mark.once
@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_disk_that_is_too_small_is_told_of_and_nothing_is_left_behind(
    home: Path, tmp_path: Path, command: str
) -> None:
    digests = attach(home, "large " * 50_000)
    copies.backup(home, tmp_path / "copy.db")
    (tmp_path / "there").mkdir()
    home_of = {"backup": home, "restore": tmp_path / "there"}[command]
    file = {"backup": tmp_path / "there" / "new.db", "restore": tmp_path / "copy.db"}[command]
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, command, str(file), "--home", str(home_of)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, "Traceback" in ran.stderr) == (1, "", False), ran.stderr
    assert "failed" in ran.stderr or "nothing was restored" in ran.stderr
    assert "MB are free" in ran.stderr
    left = [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()]
    assert [name for name in left if name != homes.LOCK_FILE] == []
    assert list(contents(home)) == digests


def test_a_session_that_is_deleted_during_a_backup_is_whole_in_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (digest,) = attach(home, "hello")
    pack = attached.pack

    def late(home: Path, copy: Path) -> tuple[int, list[str]]:
        write(home, DeleteSession(append_id=fresh(), session_id=SESSION))
        assert files.tidy(home) == []
        return pack(home, copy)

    monkeypatch.setattr(attached, "pack", late)
    assert copies.backup(home, tmp_path / "copy.db").lost == []
    monkeypatch.undo()
    assert files.tidy(home) == [digest]
    copies.restore(home, tmp_path / "copy.db")
    assert contents(home) == {digest: digest}
    assert examine(home) == []


def test_a_backup_reads_files_in_pieces(home: Path, tmp_path: Path) -> None:
    attach(home, "x" * (24 << 20))
    tracemalloc.start()
    copies.backup(home, tmp_path / "copy.db")
    copies.restore(tmp_path / "new", tmp_path / "copy.db")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_the_commands_say_what_they_did(home: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.db")
    saved = CliRunner().invoke(main, ["backup", copy, "--home", str(home)])
    restored = CliRunner().invoke(main, ["restore", copy, "--home", str(home)])
    refused = CliRunner().invoke(main, ["backup", copy, "--home", str(home)])
    assert (saved.exit_code, restored.exit_code, refused.exit_code) == (0, 0, 1)
    assert (
        "bytes, with 0 attached files" in saved.output
        and "restored" in restored.output
        and "exists already" in refused.stderr
    )
