"""Orders for the writer with as little said as a test needs."""

import itertools

from timothy.eventlog.records import AppendRows, BeginTurn, CreateSession, EndTurn, Row
from timothy.events import AttemptEnded

_numbers = itertools.count(1)
ATTEMPT = AttemptEnded("p", "m", "ok", None, 1, 2, None, 0.5, 3, 4, "2026-01-31T12:00:00.000Z")


def fresh(kind="append"):
    return f"{kind}-{next(_numbers)}"


def create(session_id="s", title=None):
    return CreateSession(append_id=fresh(), session_id=session_id, title=title)


def begin(turn_id="t", session_id="s", text="Hello", **fields):
    mode = fields.pop("mode", "new")
    payload = {"text": text} if mode == "new" else None
    fields = {"started_at": "2026-01-31T12:00:00.000Z", "payload": payload, **fields}
    return BeginTurn(append_id=fresh(), session_id=session_id, turn_id=turn_id, mode=mode, **fields)


def append(*rows, turn_id="t", session_id="s", **fields):
    return AppendRows(append_id=fresh(), session_id=session_id, turn_id=turn_id, rows=rows, **fields)


def end(turn_id="t", session_id="s", evidence=None, rows=(), outcome="completed", **fields):
    evidence = evidence or answer()
    known = {"code": None, "message": None, "usage": None, "cost": None, "provider": "p", "model": "m"}
    ids = {"append_id": fresh(), "session_id": session_id, "turn_id": turn_id}
    return EndTurn(**ids, rows=(*rows, evidence), outcome=outcome, **{**known, **fields})


def answer(text="Hi", **more):
    return Row("assistant_turn", {"text": text, "finish_reason": "stop", **more})


def partial(text="Hal", code="stopped", **more):
    return Row("pending_state", {"text": text, "final": True, "code": code, "message": "why", **more})


def failure(code="overloaded"):
    return Row("turn_failed", {"code": code, "message": "why", "retryable": True})


def tool(call_id="c", name="read_file", **more):
    payload = {"call_id": call_id, "name": name, "input": {}, "status": "ok", "result": "content"}
    return Row("tool_execution", {**payload, "duration_ms": 1, **more})
