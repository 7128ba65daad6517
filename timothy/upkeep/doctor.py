"""Every promise about the log, as a query that finds the rows which break it."""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from timothy.database import EVIDENCE_KINDS, FILE_NAME, MIGRATIONS
from timothy.tools.mcp import ServerStatus

WAL_WARNING_BYTES = 256 << 20
DISK_WARNING_BYTES = 200 << 20
_EVIDENCE = ", ".join(f"'{kind}'" for kind in EVIDENCE_KINDS)


class Finding(msgspec.Struct, frozen=True):
    """A check and one row that breaks it; `level` is `broken`, or `notice` for what needs no repair."""

    check: str
    level: str
    row: str
    message: str


class NoDatabase(Exception):
    """There is nothing to check; the message says where it was looked for."""


# Each query gives (row, message) pairs; no row at all means that the promise is kept.
CHECKS: dict[str, str] = {
    "seq_gapless": """
        SELECT 'session ' || session_id,
               'seq runs from ' || MIN(seq) || ' to ' || MAX(seq) || ' in ' || COUNT(*) || ' rows, '
               || COUNT(DISTINCT seq) || ' of them different'
        FROM session_events GROUP BY session_id
        HAVING MIN(seq) != 1 OR MAX(seq) != COUNT(*) OR COUNT(DISTINCT seq) != COUNT(*)""",
    "session_of_event": """
        SELECT DISTINCT 'session ' || session_id, 'there are rows of a session that does not exist'
        FROM session_events WHERE session_id NOT IN (SELECT id FROM sessions)""",
    "evidence_once": f"""
        SELECT 'turn ' || t.id, 'it ended but has ' || COUNT(e.id) || ' evidence rows, not one'
        FROM turns t LEFT JOIN session_events e ON e.turn_id = t.id AND e.kind IN ({_EVIDENCE})
        WHERE t.state = 'ended' GROUP BY t.id HAVING COUNT(e.id) != 1""",
    "evidence_of_running_turn": f"""
        SELECT 'turn ' || t.id, 'it is marked as running but has its evidence'
        FROM turns t JOIN session_events e ON e.turn_id = t.id AND e.kind IN ({_EVIDENCE})
        WHERE t.state != 'ended'""",
    "evidence_last": f"""
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, 'turn ' || e.turn_id || ' has rows after this'
        FROM session_events e WHERE e.kind IN ({_EVIDENCE}) AND EXISTS (
            SELECT 1 FROM session_events l WHERE l.turn_id = e.turn_id AND l.seq > e.seq)""",
    "turn_of_event": """
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, 'turn ' || e.turn_id || ' does not exist'
        FROM session_events e LEFT JOIN turns t ON t.id = e.turn_id
        WHERE e.turn_id IS NOT NULL AND t.id IS NULL""",
    "turn_in_its_session": """
        SELECT 'session ' || e.session_id || ' seq ' || e.seq, 'turn ' || t.id || ' is another session''s'
        FROM session_events e JOIN turns t ON t.id = e.turn_id WHERE t.session_id != e.session_id""",
    "no_interleaving": """
        WITH spans AS (
            SELECT session_id, turn_id, MIN(seq) AS first, MAX(seq) AS last FROM session_events
            WHERE turn_id IS NOT NULL GROUP BY session_id, turn_id)
        SELECT 'session ' || s.session_id || ' seq ' || e.seq,
               'a row of turn ' || e.turn_id || ' stands between rows of turn ' || s.turn_id
        FROM spans s JOIN session_events e ON e.session_id = s.session_id AND e.seq > s.first
            AND e.seq < s.last AND e.turn_id IS NOT NULL AND e.turn_id != s.turn_id""",
    "outcome_known": """
        SELECT 'turn ' || id, 'it ended without an outcome' FROM turns
        WHERE state = 'ended' AND (outcome IS NULL OR ended_at IS NULL)""",
    "outcome_fits_evidence": """
        SELECT 'turn ' || t.id, 'its outcome is ' || t.outcome || ' but its evidence is ' || e.kind
        FROM turns t JOIN session_events e ON e.turn_id = t.id
        WHERE (e.kind = 'assistant_turn') != (t.outcome IN ('completed', 'incomplete'))
            AND e.kind IN ('assistant_turn', 'pending_state', 'turn_failed') AND t.state = 'ended'""",
    "message_of_turn": """
        SELECT 'turn ' || t.id, 'the message that it answers (seq ' || t.user_seq || ') is not there'
        FROM turns t LEFT JOIN session_events e ON e.session_id = t.session_id AND e.seq = t.user_seq
            AND e.kind = 'user_message' WHERE e.id IS NULL""",
    "checkpoints_end": """
        SELECT 'turn ' || p.turn_id, 'it ended but its checkpoints are still there'
        FROM pending_states p LEFT JOIN turns t ON t.id = p.turn_id
        WHERE t.id IS NULL OR t.state = 'ended' GROUP BY p.turn_id""",
    "tools_end": """
        SELECT 'turn ' || s.turn_id, 'it ended but its call ' || s.call_id || ' is still marked as started'
        FROM tool_starts s LEFT JOIN turns t ON t.id = s.turn_id WHERE t.id IS NULL OR t.state = 'ended'""",
    "tool_execution_once": """
        SELECT 'turn ' || turn_id, 'its call ' || json_extract(payload, '$.call_id') || ' is recorded '
            || COUNT(*) || ' times'
        FROM session_events WHERE kind = 'tool_execution' AND turn_id IS NOT NULL
        GROUP BY turn_id, json_extract(payload, '$.call_id') HAVING COUNT(*) > 1""",
    "permission_resolved": """
        SELECT 'session ' || q.session_id || ' seq ' || q.seq, 'this permission request was never resolved'
        FROM session_events q JOIN turns t ON t.id = q.turn_id
        WHERE q.kind = 'permission_request' AND t.state = 'ended' AND NOT EXISTS (
            SELECT 1 FROM session_events r WHERE r.turn_id = q.turn_id AND r.kind = 'permission_resolved'
            AND json_extract(r.payload, '$.id') = json_extract(q.payload, '$.id'))""",
    "ledger_of_turn": """
        SELECT 'attempt ' || a.id, 'turn ' || a.turn_id || ' does not exist'
        FROM attempts a LEFT JOIN turns t ON t.id = a.turn_id WHERE t.id IS NULL""",
    "ledger_of_answer": """
        SELECT 'turn ' || t.id, 'it was answered but the ledger has no attempt that gave an answer'
        FROM turns t JOIN sessions s ON s.id = t.session_id
        WHERE t.outcome = 'completed' AND t.request_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM attempts a WHERE a.turn_id = t.id AND a.status IN ('ok', 'incomplete'))""",
    "payload_is_json": """
        SELECT 'session ' || session_id || ' seq ' || seq, 'its payload is no JSON'
        FROM session_events WHERE NOT json_valid(payload)""",
}


def examine(home: Path) -> list[Finding]:
    """Everything that is wrong with the log in `home`; works beside a running server. Raises NoDatabase."""
    path = home / FILE_NAME
    if not path.is_file():
        raise NoDatabase(f"there is no database at {path}")
    with contextlib.closing(_connect(path)) as connection:
        try:
            connection.execute("BEGIN")  # one snapshot for all checks
            return [*_file(connection, path), *_invariants(connection), *_surroundings(path)]
        except sqlite3.DatabaseError as error:
            return [Finding("readable", "broken", str(path), f"the database cannot be read: {error}")]


def tool_servers(statuses: Iterable[ServerStatus]) -> list[Finding]:
    """A notice for every MCP server that offers no tools now; the log is whole all the same."""
    return [
        Finding("tool_server", "notice", status.name, status.error or f"it is {status.state}")
        for status in statuses
        if status.state != "ready"
    ]


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


def _surroundings(path: Path) -> Iterator[Finding]:
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > WAL_WARNING_BYTES:
        yield Finding("wal_size", "notice", str(wal), f"it has grown to {size >> 20} MB")
    free = shutil.disk_usage(path.parent).free
    if free < DISK_WARNING_BYTES:
        yield Finding("free_disk", "notice", str(path.parent), f"only {free >> 20} MB are free")
