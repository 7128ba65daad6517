"""The independent checker finds every kind of breach, and nothing in a log that is whole."""

import contextlib
import importlib.util
import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_log.py"
SCHEMA = """
CREATE TABLE sessions (id, title, created_at);
CREATE TABLE turns (id, session_id, state, outcome, code, started_at, idempotency_key);
CREATE TABLE session_events (session_id, seq, turn_id, kind, payload);
CREATE TABLE attempts (id INTEGER PRIMARY KEY, session_id, turn_id, status, code, duration_ms,
    first_token_ms);
CREATE TABLE pending_states (turn_id, text);
CREATE TABLE tool_starts (turn_id, call_id);
INSERT INTO sessions VALUES ('s', NULL, '1970-01-01T00:00:00.000Z');
"""
PARTIAL = {"text": "Hel", "final": True, "code": "interrupted"}
SEND = {"session_id": "s", "turn_id": "t1", "key": "k1", "message": "one"}
VIEW: dict[str, Any] = {"session_id": "s", "turn_id": "t1", "text": "Hello", "marks": [[100.0, 5]]}
VIEW |= {"terminals": ["done"], "tools": [["c1", "ok"]]}
CUT: dict[str, Any] = {"session_id": "s", "turn_id": "t2", "text": "Hello", "terminals": [], "tools": []}


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    specification = importlib.util.spec_from_file_location("check_log", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Two turns: one completed with a tool, one killed."""
    path = tmp_path / "timothy.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for seq, (turn, kind, payload) in enumerate(
            [
                (None, "session_started", {}),
                ("t1", "user_message", {"text": "one"}),
                ("t1", "tool_execution", {"call_id": "c1", "status": "ok"}),
                ("t1", "assistant_turn", {"text": "Hello", "finish_reason": "stop"}),
                (None, "title_set", {"title": "x"}),
                ("t2", "user_message", {"text": "two"}),
                ("t2", "pending_state", PARTIAL),
            ],
            start=1,
        ):
            row = ("s", seq, turn, kind, json.dumps(payload))
            connection.execute("INSERT INTO session_events VALUES (?, ?, ?, ?, ?)", row)
        connection.executescript("""
            INSERT INTO turns VALUES ('t1', 's', 'ended', 'completed', NULL, '1970-01-01T00:01:30.5Z', 'k1');
            INSERT INTO turns VALUES
                ('t2', 's', 'ended', 'interrupted', 'interrupted', '1970-01-01T00:01:39Z', 'k2');
            INSERT INTO attempts VALUES (1, 's', 't1', 'error', 'overloaded', 12, NULL);
            INSERT INTO attempts VALUES (2, 's', 't1', 'ok', NULL, 900, 20);
        """)
        connection.commit()
    return path


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def found(checker: ModuleType, path: Path, change: str = "", **histories: Any) -> list[str]:
    """The names of the rules that are broken after `change`, once each."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(change)
        connection.commit()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        lines = checker.breaches(checker.Log(connection), histories)
    return sorted({line.split(":")[0] for line in lines})


def test_a_whole_log_has_no_breach(checker: ModuleType, database: Path) -> None:
    probe = {"session_id": "s", "outcome": "completed", "turn_active": False}
    killed = {**CUT, "marks": [[101.0, 3], [103.5, 5]], "terminals": ["interrupted"]}
    told: dict[str, Any] = {
        "sends": [SEND, SEND],
        "views": [VIEW, killed],
        "probes": [probe],
        "kills": [50.0, 104.0],
    }
    assert found(checker, database, **told) == []


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("every_turn_ended_with_one_evidence_as_its_last_row", "DELETE FROM session_events WHERE seq = 7"),
        (
            "every_turn_ended_with_one_evidence_as_its_last_row",
            "UPDATE session_events SET kind = 'turn_failed', payload = '{}' WHERE seq = 3",
        ),
        (
            "every_turn_ended_with_one_evidence_as_its_last_row",
            "UPDATE session_events SET turn_id = 't1' WHERE seq = 5",
        ),
        (
            "every_turn_ended_with_one_evidence_as_its_last_row",
            "UPDATE turns SET state = 'running' WHERE id = 't2'",
        ),
        (
            "every_row_belongs_to_a_session_and_a_turn_that_exist",
            "INSERT INTO session_events VALUES ('ghost', 1, NULL, 'session_started', '{}')",
        ),
        (
            "every_row_belongs_to_a_session_and_a_turn_that_exist",
            "UPDATE session_events SET turn_id = 'ghost' WHERE seq = 5",
        ),
        ("seqs_have_no_gaps", "UPDATE session_events SET seq = 9 WHERE seq = 7"),
        ("no_turn_lies_inside_another", "UPDATE session_events SET turn_id = 't2' WHERE seq = 3"),
        ("the_evidence_says_what_the_turn_says", "UPDATE turns SET outcome = 'failed' WHERE id = 't1'"),
        ("the_evidence_says_what_the_turn_says", "UPDATE turns SET code = 'stopped' WHERE id = 't2'"),
        (
            "the_evidence_says_what_the_turn_says",
            "UPDATE session_events SET payload = replace(payload, 'Hel', '') WHERE seq = 7",
        ),
        ("nothing_running_is_left_over", "INSERT INTO pending_states VALUES ('t1', 'Hel')"),
        ("nothing_running_is_left_over", "INSERT INTO tool_starts VALUES ('t1', 'c1')"),
        ("one_key_is_one_turn", "UPDATE turns SET idempotency_key = 'k1'"),
        ("the_ledger_matches_the_turns", "DELETE FROM attempts WHERE id = 2"),
        ("the_ledger_matches_the_turns", "UPDATE attempts SET turn_id = 'ghost' WHERE id = 1"),
        (
            "the_ledger_matches_the_turns",
            "INSERT INTO attempts VALUES (3, 's', 't2', 'error', 'stream_cut', 5, 5);"
            "UPDATE turns SET outcome = 'stopped' WHERE id = 't2'",
        ),
        (
            "tools_match_their_calls",
            "INSERT INTO session_events SELECT 's', 8, 't1', kind, payload FROM session_events WHERE seq = 3",
        ),
        ("durations_are_those_of_a_steady_clock", "UPDATE attempts SET duration_ms = -7200000 WHERE id = 2"),
        ("durations_are_those_of_a_steady_clock", "UPDATE attempts SET first_token_ms = -1 WHERE id = 2"),
        (
            "durations_are_those_of_a_steady_clock",
            """UPDATE session_events SET payload = '{"duration_ms": -1}' WHERE seq = 1""",
        ),
    ],
)
def test_a_broken_log_is_found(checker: ModuleType, database: Path, rule: str, change: str) -> None:
    assert rule in found(checker, database, change)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("nothing_acknowledged_is_lost", {"sends": [{**SEND, "turn_id": "t9"}]}),
        ("nothing_acknowledged_is_lost", {"sends": [{**SEND, "session_id": "other"}]}),
        ("nothing_acknowledged_is_lost", {"sends": [{**SEND, "message": "something else"}]}),
        ("one_key_is_one_turn", {"sends": [SEND, {**SEND, "turn_id": "t2"}]}),
        ("text_that_was_shown_is_kept", {"views": [{**VIEW, "text": "Hello!"}]}),
        ("text_that_was_shown_is_kept", {"views": [{**VIEW, "turn_id": "t9"}]}),
        (
            "text_that_was_shown_is_kept",
            {"views": [{**CUT, "marks": [[100.0, 3], [101.9, 5]]}], "kills": [104.0]},
        ),
        ("text_that_was_shown_is_kept", {"views": [{**CUT, "marks": [[100.0, 5]]}]}),
        (
            "text_that_was_shown_is_kept",
            {"views": [{**CUT, "text": "Hulla", "marks": [[103.0, 5]]}], "kills": [104.0]},
        ),
        ("a_viewer_saw_the_end_that_the_log_tells", {"views": [{**VIEW, "terminals": ["stream_cut"]}]}),
        ("a_viewer_saw_the_end_that_the_log_tells", {"views": [{**VIEW, "terminals": ["done", "done"]}]}),
        ("tools_match_their_calls", {"views": [{**VIEW, "tools": [["c2", "ok"]]}]}),
        ("durations_are_those_of_a_steady_clock", {"longest_s": 0.5}),
        ("nobody_gave_up_too_early", {"patience": {"overloaded": 0.5}}),
        (
            "nobody_gave_up_too_early",
            {"views": [{**VIEW, "parks": [["timeout", 0.1]]}], "patience": {"permission": 3.0}},
        ),
        (
            "no_claim_is_left_over",
            {"probes": [{"session_id": "s", "outcome": None, "turn_active": True}]},
        ),
    ],
)
def test_a_history_that_the_log_does_not_bear_out_is_found(
    checker: ModuleType, database: Path, rule: str, told: dict[str, Any]
) -> None:
    assert rule in found(checker, database, **told)


def test_what_a_full_disk_kept_from_being_saved_may_be_lost(checker: ModuleType, database: Path) -> None:
    view = {**CUT, "marks": [[99.5, 3], [101.9, 5]]}
    told: dict[str, Any] = {"views": [view], "kills": [104.0], "full": [[101.6, 103.0]]}
    assert found(checker, database, **told) == []
    for full in ([[50.0, 60.0]], [[105.0, 106.0]]):
        assert found(checker, database, **{**told, "full": full}) == ["text_that_was_shown_is_kept"]
    told["views"] = [{**view, "marks": [[99.5, 5]]}]
    assert found(checker, database, **told) == ["text_that_was_shown_is_kept"]


@pytest.mark.parametrize("offset", [7200.0, -7200.0])
def test_what_was_shown_before_a_kill_is_found_under_a_clock_that_jumped(
    checker: ModuleType, database: Path, offset: float
) -> None:
    jumped = f"UPDATE turns SET started_at = '{_stamp(99.0 + offset)}' WHERE id = 't2'"
    view = {**CUT, "marks": [[100.0, 3], [101.9, 5]]}
    told = {"views": [view], "kills": [50.0, 104.0], "jumps": [[60.0, offset], [102.0, 0.0]], "ended": 105.0}
    assert found(checker, database, jumped, **told) == ["text_that_was_shown_is_kept"]
    told["views"] = [{**view, "marks": [[100.0, 3], [102.1, 5]]}]
    assert found(checker, database, jumped, **told) == []


@pytest.mark.once
def test_the_program_says_what_is_broken_and_whether_it_could_check(database: Path, tmp_path: Path) -> None:
    histories = tmp_path / "histories.json"
    histories.write_text(json.dumps({"sends": [{**SEND, "turn_id": "t9"}]}), encoding="utf-8")
    lost = tmp_path / "missing.db"
    runs = [
        subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=30)
        for arguments in ([database], [database, histories], [lost], [histories])
    ]
    assert [ran.returncode for ran in runs] == [0, 1, 2, 2]
    assert "2 turns (1 completed, 1 interrupted)" in runs[0].stdout
    assert runs[1].stdout.startswith("nothing_acknowledged_is_lost: send k1")
    assert not lost.exists()
