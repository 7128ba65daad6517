"""The database's schema: what the file itself holds to, in numbered migrations."""

import contextlib
import sqlite3
from pathlib import Path

from timothy.errors import DatabaseTooNew
from timothy.home import private

EVIDENCE_KINDS = ("assistant_turn", "pending_state", "turn_failed")
_EVIDENCE = ", ".join(f"'{kind}'" for kind in EVIDENCE_KINDS)

_FIRST = f"""
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, title TEXT, archived INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, origin TEXT, tools_off TEXT NOT NULL DEFAULT '[]');
CREATE INDEX sessions_by_activity ON sessions (updated_at, id);
CREATE TABLE session_events (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, seq INTEGER NOT NULL, turn_id TEXT, kind TEXT NOT NULL,
    payload TEXT NOT NULL, created_at TEXT NOT NULL, append_id TEXT);
CREATE UNIQUE INDEX session_events_in_order ON session_events (session_id, seq);
CREATE UNIQUE INDEX session_events_once ON session_events (append_id) WHERE append_id IS NOT NULL;
CREATE UNIQUE INDEX one_evidence ON session_events (turn_id) WHERE kind IN ({_EVIDENCE});
CREATE INDEX session_events_by_turn ON session_events (turn_id) WHERE turn_id IS NOT NULL;
CREATE TABLE turns (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL, state TEXT NOT NULL, mode TEXT NOT NULL, outcome TEXT,
    code TEXT, message TEXT, started_at TEXT NOT NULL, ended_at TEXT, usage TEXT, cost REAL, provider TEXT,
    model TEXT, idempotency_key TEXT, user_seq INTEGER NOT NULL, requested_model TEXT, request_id TEXT);
CREATE UNIQUE INDEX turns_by_key ON turns (session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX turns_by_session ON turns (session_id);
CREATE UNIQUE INDEX one_running_turn ON turns (session_id) WHERE state = 'running';
CREATE TABLE pending_states (
    id INTEGER PRIMARY KEY, turn_id TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
    reasoning TEXT NOT NULL, provider TEXT, model TEXT, saved_at TEXT NOT NULL);
CREATE UNIQUE INDEX pending_states_in_order ON pending_states (turn_id, number);
CREATE TABLE tool_starts (
    id INTEGER PRIMARY KEY, turn_id TEXT NOT NULL, call_id TEXT NOT NULL, name TEXT NOT NULL,
    input TEXT NOT NULL);
CREATE UNIQUE INDEX tool_starts_once ON tool_starts (turn_id, call_id);
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, turn_id TEXT NOT NULL, provider TEXT NOT NULL,
    model TEXT NOT NULL, status TEXT NOT NULL, code TEXT, input_tokens INTEGER, output_tokens INTEGER,
    cached_tokens INTEGER, cost REAL, first_token_ms INTEGER, duration_ms INTEGER, started_at TEXT NOT NULL,
    append_id TEXT NOT NULL UNIQUE);
CREATE INDEX attempts_by_turn ON attempts (turn_id);
CREATE INDEX attempts_by_time ON attempts (started_at);
CREATE TABLE grants (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, tool TEXT NOT NULL, subject TEXT NOT NULL,
    expires_at TEXT NOT NULL);
CREATE INDEX grants_by_session ON grants (session_id);
CREATE TABLE storage_probe (id INTEGER PRIMARY KEY, written_at TEXT NOT NULL);
CREATE TRIGGER nothing_follows_evidence BEFORE INSERT ON session_events
WHEN NEW.turn_id IS NOT NULL AND EXISTS (
    SELECT 1 FROM session_events WHERE turn_id = NEW.turn_id AND kind IN ({_EVIDENCE}))
BEGIN SELECT RAISE(ABORT, 'the turn has its evidence already'); END;
CREATE TRIGGER rows_never_change BEFORE UPDATE ON session_events
BEGIN SELECT RAISE(ABORT, 'a row of the log never changes'); END;
CREATE TRIGGER rows_stay BEFORE DELETE ON session_events
WHEN EXISTS (SELECT 1 FROM sessions WHERE id = OLD.session_id)
BEGIN SELECT RAISE(ABORT, 'a row of the log goes only with its session'); END;
"""

# A clock that is set back must not put what was active last behind the rest.
_ACTIVITY = """
ALTER TABLE sessions ADD COLUMN activity INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET activity = ranked.place FROM (
    SELECT id, ROW_NUMBER() OVER (ORDER BY updated_at, id) AS place FROM sessions) AS ranked
WHERE ranked.id = sessions.id;
DROP INDEX sessions_by_activity;
CREATE INDEX sessions_by_activity ON sessions (activity);
"""

_SETTINGS = "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL)"

# Rows that are rare and looked up among all sessions. Their queries must say this in the same words.
PERMISSION_ID = "CASE WHEN json_valid(payload) THEN json_extract(payload, '$.id') END"
OF_PERMISSIONS = "kind IN ('permission_request', 'permission_resolved')"
WITH_FILES = "kind = 'user_message' AND instr(payload, '\"attachments\"') > 0"
# A file's hash, in a row of json_each over a message's attachments; null in what is no object.
FILE_HASH = "CASE json_each.type WHEN 'object' THEN json_extract(json_each.value, '$.sha256') END"
_LOOKUPS = f"""
CREATE INDEX session_events_by_permission ON session_events ({PERMISSION_ID}) WHERE {OF_PERMISSIONS};
CREATE INDEX session_events_with_files ON session_events (session_id) WHERE {WITH_FILES};
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _ACTIVITY, _SETTINGS, _LOOKUPS)


def migrate(path: Path, migrations: tuple[str, ...] = MIGRATIONS) -> int:
    """Bring the file to the newest version, after a backup copy beside it; returns the version it had.

    A new file is its owner's alone, and so is what SQLite puts beside it. Raises DatabaseTooNew when the file
    was written by a newer Timothy, OSError and sqlite3's errors when it cannot be written.
    """
    with contextlib.closing(sqlite3.connect(private(path), isolation_level=None)) as connection:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(migrations):
            raise DatabaseTooNew(
                f"{path} has version {version}, this Timothy knows up to {len(migrations)}:"
                " install a newer one, or start with another home"
            )
        if 0 < version < len(migrations):
            _backup(connection, path.with_suffix(f".before-{len(migrations)}.db"))
        connection.execute("PRAGMA journal_mode = wal")
        for number, script in enumerate(migrations[version:], start=version + 1):
            _apply(connection, number, script)
    return version


def _backup(connection: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(private(target))) as copy:
        connection.backup(copy)


def _apply(connection: sqlite3.Connection, number: int, script: str) -> None:
    connection.executescript(f"BEGIN IMMEDIATE;\n{script};\nPRAGMA user_version = {number};\nCOMMIT;")
