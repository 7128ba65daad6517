"""A turn that died is folded from what it had shown."""

from timothy.events import (
    Done,
    Error,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    Status,
    TextDelta,
    Tokens,
    ToolCall,
    ToolCallStarted,
    ToolResult,
    TurnStarted,
    Usage,
)
from timothy.turn.fold import aborted, plain

STARTED = TurnStarted("s", "t0", "Hello")


def fold(*events):
    return aborted("s", "t", (STARTED, *events), "turn_aborted", "it broke", 1200)


def test_a_turn_that_showed_nothing_is_a_named_failure():
    order, closing = fold(Status("a", "b"))
    (row,) = order.rows
    assert row.kind == "turn_failed"
    assert (row.payload["code"], row.payload["message"], row.payload["retryable"]) == (
        "turn_aborted",
        "it broke",
        True,
    )
    assert closing == (Error("turn_aborted", "it broke", True),)
    assert (order.outcome, order.code, order.session_id, order.turn_id) == (
        "failed",
        "turn_aborted",
        "s",
        "t",
    )


def test_every_shown_letter_is_in_the_evidence():
    usage = Usage(1, 2, None)
    order, _ = fold(TextDelta("ab"), ReasoningDelta("x"), Usage(1, 1, None), TextDelta("cd"), usage)
    (row,) = order.rows
    assert row.kind == "pending_state"
    assert (row.payload["text"], row.payload["reasoning"], row.payload["final"]) == ("abcd", "x", True)
    assert row.payload["duration_ms"] == 1200
    assert order.usage == Tokens(1, 2, None)


def test_what_is_open_is_closed_in_the_log_and_on_the_screen():
    call, other = ToolCall("c1", "write_file", {"path": "a"}), ToolCall("c2", "read_file", {})
    request = PermissionRequest("p1", "c1", "write_file", {}, "write", "why", "t9")
    order, closing = fold(
        ToolCallStarted("c1", "write_file"),
        call,
        other,
        PermissionRequest("p0", "c0", "x", {}, "write", "why", "t9"),
        PermissionResolved("p0", "deny"),
        request,
        ToolResult("c2", "read_file", "ok", "", 3, False),
    )
    resolved, executed, evidence = order.rows
    assert (resolved.kind, resolved.payload) == ("permission_resolved", {"id": "p1", "decision": "cancelled"})
    assert executed.kind == "tool_execution"
    assert executed.payload == {
        "call_id": "c1",
        "name": "write_file",
        "input": {"path": "a"},
        "status": "cancelled",
        "result": "interrupted, may have run",
        "duration_ms": None,
    }
    assert evidence.kind == "turn_failed"
    assert closing == (
        PermissionResolved("p1", "cancelled"),
        ToolResult("c1", "write_file", "cancelled", "interrupted, may have run", 0, False),
        Error("turn_aborted", "it broke", True),
    )


def test_the_evidence_is_the_last_row_and_the_terminal_the_last_event():
    order, closing = fold(TextDelta("a"), ToolCall("c", "n", {}))
    assert [row.kind for row in order.rows] == ["tool_execution", "pending_state"]
    assert [isinstance(event, Done | Error) for event in closing] == [False, True]


def test_the_smallest_evidence_holds_nothing_that_could_be_refused():
    order, _ = fold(TextDelta("a"))
    smallest, terminal = plain(order, "turn_aborted", "refused")
    assert [row.kind for row in smallest.rows] == ["turn_failed"]
    assert smallest.append_id != order.append_id
    assert (smallest.session_id, smallest.turn_id, smallest.attempt) == ("s", "t", None)
    assert terminal == Error("turn_aborted", "refused", True)
