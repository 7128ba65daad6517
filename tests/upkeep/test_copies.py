"""A copy of the log is whole, and puts back exactly what it was made of."""

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.upkeep.conftest import SESSION, begin, end, fresh, write
from timothy import home as homes
from timothy.cli import main
from timothy.database import FILE_NAME, MIGRATIONS, migrate, open_database
from timothy.errors import HomeLocked
from timothy.eventlog.records import ChangeSettings, UpdateSession
from timothy.eventlog.settings import stored
from timothy.upkeep import copies
from timothy.upkeep.doctor import examine


def rows(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute(
        "SELECT session_id, seq, kind, payload FROM session_events ORDER BY id"
    ).fetchall()
    connection.close()
    return found


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


def test_the_commands_say_what_they_did(home: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.db")
    saved = CliRunner().invoke(main, ["backup", copy, "--home", str(home)])
    restored = CliRunner().invoke(main, ["restore", copy, "--home", str(home)])
    refused = CliRunner().invoke(main, ["backup", copy, "--home", str(home)])
    assert (saved.exit_code, restored.exit_code, refused.exit_code) == (0, 0, 1)
    assert "bytes" in saved.output and "restored" in restored.output and "exists already" in refused.stderr
