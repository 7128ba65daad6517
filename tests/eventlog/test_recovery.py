"""After a crash every unfinished turn gets its evidence, with all that was saved."""

import time

from tests.eventlog.orders import ATTEMPT, append, begin, create, end, partial, tool
from timothy.eventlog import queries
from timothy.eventlog.records import Piece, Row, ToolStart
from timothy.eventlog.recovery import recover
from timothy.eventlog.store import Writer


def crash_and_recover(log):
    """A new writer, as after a restart."""
    log.writer = Writer(log.database)
    return recover(log.database, log.writer)


def test_a_turn_that_saved_nothing_failed_as_interrupted(log):
    log.write(create(), begin())
    (recovered,) = crash_and_recover(log)
    assert (recovered.session_id, recovered.turn_id, recovered.characters) == ("s", "t", 0)
    row = log.rows()[-1]
    assert row.kind == "turn_failed"
    assert (row.payload["code"], row.payload["retryable"], row.payload["duration_ms"]) == (
        "interrupted",
        True,
        None,
    )
    assert row.payload["message"] == "the server was interrupted before any text was saved"
    turn = queries.turn(log.reader, "s", "t")
    assert turn["message"] == row.payload["message"]
    assert (turn["state"], turn["outcome"], turn["code"]) == ("ended", "interrupted", "interrupted")
    assert turn["attempts"] == []


def test_all_saved_pieces_are_in_the_evidence_in_order(log):
    log.write(create(), begin(), append(piece=Piece(1, "a", "x", "p", "m")))
    log.write(*(append(piece=Piece(n, str(n), "", "p", "m")) for n in range(2, 12)))
    (recovered,) = crash_and_recover(log)
    row = log.rows()[-1]
    assert row.kind == "pending_state"
    assert (row.payload["text"], row.payload["reasoning"], row.payload["final"]) == (
        "a234567891011",
        "x",
        True,
    )
    assert (row.payload["provider"], row.payload["model"]) == ("p", "m")
    assert recovered.characters == len("a234567891011")
    assert log.count("pending_states") == 0
    (attempt,) = queries.turn(log.reader, "s", "t")["attempts"]
    assert (attempt["status"], attempt["code"], attempt["cost"]) == ("error", "interrupted", None)


def test_an_attempt_that_is_in_the_ledger_is_not_booked_again(log):
    log.write(create(), begin(), append(piece=Piece(1, "a", "", "p", "m")))
    log.write(append(piece=Piece(2, "b", "", None, None), attempt=ATTEMPT))
    crash_and_recover(log)
    payload = log.rows()[-1].payload
    assert (payload["text"], payload["provider"], payload["model"]) == ("ab", "p", "m")
    assert [attempt["status"] for attempt in queries.turn(log.reader, "s", "t")["attempts"]] == ["ok"]


def test_what_was_booked_before_the_crash_is_told_by_the_turn(log):
    booked = ATTEMPT
    log.write(create(), begin(), append(piece=Piece(1, "a", "", None, None), attempt=booked))
    log.write(append(attempt=booked))
    crash_and_recover(log)
    turn = queries.turn(log.reader, "s", "t")
    assert (turn["provider"], turn["model"]) == (booked.provider, booked.model)
    assert turn["usage"]["input_tokens"] == 2 * booked.input_tokens
    assert turn["usage"]["cached_tokens"] is booked.cached_tokens is None
    payload = log.rows()[-1].payload
    assert (payload["usage"], payload["provider"]) == (turn["usage"], booked.provider)


def test_an_attempt_after_one_that_is_in_the_ledger_is_booked(log):
    log.write(create(), begin(), append(piece=Piece(1, "a", "", "p", "m")))
    log.write(append(piece=Piece(2, "", "", None, None), attempt=ATTEMPT))
    log.write(append(piece=Piece(3, "b", "", "q", "n")))
    crash_and_recover(log)
    attempts = queries.turn(log.reader, "s", "t")["attempts"]
    assert [(one["provider"], one["status"]) for one in attempts] == [("p", "ok"), ("q", "error")]


def test_a_tool_that_may_have_run_is_said_to_have_been_cancelled(log):
    start = ToolStart("c", "write_file", {"path": "a"})
    log.write(create(), begin(), append(tool("done")), append(tool_start=start))
    crash_and_recover(log)
    assert log.kinds()[2:] == ["tool_execution", "tool_execution", "turn_failed"]
    assert log.rows()[3].payload == {
        "call_id": "c",
        "name": "write_file",
        "input": {"path": "a"},
        "status": "cancelled",
        "result": "interrupted, may have run",
        "duration_ms": None,
    }
    assert log.count("tool_starts") == 0


def test_an_open_permission_is_cancelled_and_an_answered_one_stays(log):
    log.write(create(), begin())
    for permission_id in ("open", "answered"):
        log.write(append(Row("permission_request", {"id": permission_id})))
    log.write(append(Row("permission_resolved", {"id": "answered", "decision": "once"})))
    crash_and_recover(log)
    assert queries.permission(log.reader, "open")["decision"] == "cancelled"
    assert queries.permission(log.reader, "answered")["decision"] == "once"
    assert log.kinds().count("permission_resolved") == 2


def test_turns_that_ended_are_left_alone_and_a_second_recovery_finds_nothing(log):
    log.write(create(), begin(), end(evidence=partial()))
    before = list(log.database.connection().iterdump())
    assert crash_and_recover(log) == []
    assert list(log.database.connection().iterdump()) == before
    log.write(begin("u"))
    assert len(crash_and_recover(log)) == 1
    assert crash_and_recover(log) == []


def test_a_recovered_session_takes_the_next_turn(log):
    log.write(create(), begin())
    crash_and_recover(log)
    log.write(begin("u", mode="again", user_seq=2, last_turn_id="t"), end("u"))
    assert log.kinds() == ["session_started", "user_message", "turn_failed", "assistant_turn"]


def test_many_unfinished_turns_among_many_sessions_are_all_ended(log):
    names = [f"s{number}" for number in range(900)]
    log.write(*(create(name) for name in names))
    running = names[::3]
    log.write(*(begin(f"t-{name}", name) for name in running))
    log.write(
        *(
            append(piece=Piece(1, name, "", "p", "m"), turn_id=f"t-{name}", session_id=name)
            for name in running
        )
    )
    before = time.monotonic()
    recovered = crash_and_recover(log)
    assert time.monotonic() - before < 5
    assert {turn.session_id for turn in recovered} == set(running)
    assert all(log.rows(name)[-1].payload["text"] == name for name in running)
    assert log.kinds(names[1]) == ["session_started"]
