"""The database itself keeps the log's promises, and its file outlives versions."""

import sqlite3
import stat

import pytest

from timothy import home as homes
from timothy.database import FILE_NAME, open_database
from timothy.errors import DatabaseTooNew
from timothy.eventlog import files
from timothy.schema import EVIDENCE_KINDS, MIGRATIONS, OF_PERMISSIONS, PERMISSION_ID, migrate

COLUMNS = "session_id, seq, turn_id, kind, payload, created_at"
ROW = f"INSERT INTO session_events ({COLUMNS}) VALUES (?,?,?,?,'{{}}','')"


@pytest.fixture
def path(tmp_path):
    return tmp_path / FILE_NAME


@pytest.fixture
def connection(path):
    """A session with an ended turn `t` (seq 1, 2), by plain SQL: whoever writes, the file judges."""
    migrate(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO sessions (id, created_at, updated_at) VALUES ('s', '', '')")
    connection.execute(ROW, ("s", 1, "t", "user_message"))
    connection.execute(ROW, ("s", 2, "t", "pending_state"))
    yield connection
    connection.close()


def rows(connection):
    return connection.execute("SELECT seq, kind FROM session_events ORDER BY seq").fetchall()


@pytest.mark.parametrize("kind", [*EVIDENCE_KINDS, "tool_execution", "permission_resolved"])
def test_nothing_follows_a_turns_evidence(connection, kind):
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(ROW, ("s", 3, "t", kind))
    assert len(rows(connection)) == 2


@pytest.mark.parametrize("first", EVIDENCE_KINDS)
@pytest.mark.parametrize("second", EVIDENCE_KINDS)
def test_a_turn_has_one_evidence_even_without_the_trigger(connection, first, second):
    connection.execute("DROP TRIGGER nothing_follows_evidence")
    connection.execute(ROW, ("s", 3, "u", first))
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(ROW, ("s", 4, "u", second))


def test_rows_outside_a_turn_may_follow(connection):
    connection.execute(ROW, ("s", 3, None, "title_set"))
    connection.execute(ROW, ("s", 4, "u", "user_message"))
    assert len(rows(connection)) == 4


@pytest.mark.parametrize("change", ["kind = 'x'", "payload = 'x'", "seq = 9", "turn_id = NULL"])
def test_a_row_never_changes(connection, change):
    with pytest.raises(sqlite3.IntegrityError, match="never changes"):
        connection.execute(f"UPDATE session_events SET {change} WHERE seq = 1")


def test_a_row_goes_only_with_its_session(connection):
    with pytest.raises(sqlite3.IntegrityError, match="only with its session"):
        connection.execute("DELETE FROM session_events WHERE seq = 2")
    connection.execute("DELETE FROM sessions WHERE id = 's'")
    connection.execute("DELETE FROM session_events")
    assert rows(connection) == []


def test_a_seq_and_an_append_are_there_once(connection):
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(ROW, ("s", 2, "u", "user_message"))
    once = ROW.replace("created_at)", "created_at, append_id)").replace("'')", "'','a')")
    connection.execute(once, ("s", 3, "u", "user_message"))
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(once, ("s", 4, "u", "user_message"))


def test_one_turn_runs_in_a_session(connection):
    turn = "INSERT INTO turns (id, session_id, state, mode, started_at, user_seq) VALUES (?,'s',?,'new','',1)"
    connection.execute(turn, ("t", "ended"))
    connection.execute(turn, ("u", "running"))
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(turn, ("v", "running"))


def test_a_new_file_gets_the_newest_version_and_no_backup(path):
    assert migrate(path) == 0
    assert migrate(path) == len(MIGRATIONS)
    assert [file.name for file in path.parent.iterdir() if "before" in file.name] == []


def test_what_is_in_the_home_is_its_owners_alone_even_where_the_home_is_not(path):
    path.parent.chmod(0o755)
    with homes.lock(path.parent), files.hold(path.parent):
        migrate(path, MIGRATIONS[:1])
        assert migrate(path) == 1  # leaves a copy
        database = open_database(path)
        database.execute_sql("INSERT INTO sessions (id, created_at, updated_at) VALUES ('s', '', '')")
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
        database.close()
    copy = path.with_suffix(f".before-{len(MIGRATIONS)}.db").name
    beside = (copy, homes.LOCK_FILE, files.LOCK_FILE, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm")
    assert modes == dict.fromkeys((FILE_NAME, *beside), 0o600)


def test_a_file_of_a_newer_version_is_refused_and_left_alone(path):
    migrate(path, (*MIGRATIONS, "CREATE TABLE later (id INTEGER)"))
    before = path.read_bytes()
    with pytest.raises(DatabaseTooNew, match=f"version {len(MIGRATIONS) + 1}"):
        migrate(path)
    assert path.read_bytes() == before


def test_an_older_file_is_copied_first_and_then_brought_up(connection, path):
    assert migrate(path, (*MIGRATIONS, "CREATE TABLE later (id INTEGER)")) == len(MIGRATIONS)
    copy = sqlite3.connect(path.with_suffix(f".before-{len(MIGRATIONS) + 1}.db"))
    assert copy.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert rows(copy) == rows(connection)
    copy.close()
    assert connection.execute("SELECT COUNT(*) FROM later").fetchone() == (0,)
    assert rows(connection) == [(1, "user_message"), (2, "pending_state")]


def test_a_failed_migration_leaves_the_version_and_the_rows_as_they_were(connection, path):
    broken = "CREATE TABLE half (id INTEGER); DROP TABLE sessions; INSERT INTO nowhere VALUES (1)"
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(path, (*MIGRATIONS, broken))
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert connection.execute("SELECT COUNT(*) FROM sessions").fetchone() == (1,)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall()
    assert tables == []
    assert migrate(path) == len(MIGRATIONS)


def test_migrations_are_applied_one_by_one(path):
    steps = (*MIGRATIONS, "CREATE TABLE second (id INTEGER)", "INSERT INTO nowhere VALUES (1)")
    with pytest.raises(sqlite3.OperationalError):
        migrate(path, steps)
    assert migrate(path, steps[:-1]) == len(MIGRATIONS) + 1


def test_an_older_file_keeps_the_order_of_its_sessions(path):
    migrate(path, MIGRATIONS[:1])
    connection = sqlite3.connect(path, isolation_level=None)
    for row in (("b", "2026-03"), ("c", "2026-01"), ("a", "2026-03"), ("d", "2026-02")):
        connection.execute("INSERT INTO sessions (id, created_at, updated_at) VALUES (?, '', ?)", row)
    assert migrate(path) == 1
    ordered = connection.execute("SELECT id, activity FROM sessions ORDER BY activity").fetchall()
    assert ordered == [("c", 1), ("d", 2), ("a", 3), ("b", 4)]
    connection.close()


def test_an_older_file_gets_room_for_settings_and_loses_nothing(path):
    migrate(path, MIGRATIONS[:2])
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO sessions (id, created_at, updated_at, activity) VALUES ('s', '', '', 7)")
    connection.execute(ROW, ("s", 1, "t", "user_message"))
    assert migrate(path) == 2
    assert connection.execute("SELECT id, activity FROM sessions").fetchall() == [("s", 7)]
    assert rows(connection) == [(1, "user_message")]
    assert connection.execute("SELECT * FROM settings").fetchall() == []
    connection.close()


def test_an_older_file_is_brought_up_with_a_permission_whose_row_is_damaged(path):
    migrate(path, MIGRATIONS[:3])
    connection = sqlite3.connect(path, isolation_level=None)
    for seq, payload in ((1, '{"id": "p"'), (2, '{"id": "q"}')):
        row = ("s", seq, None, "permission_request", payload, "")
        connection.execute(f"INSERT INTO session_events ({COLUMNS}) VALUES (?,?,?,?,?,?)", row)
    assert migrate(path) == 3
    found = f"SELECT seq FROM session_events WHERE {OF_PERMISSIONS} AND {PERMISSION_ID} = 'q'"
    assert connection.execute(found).fetchall() == [(2,)]
    connection.close()
