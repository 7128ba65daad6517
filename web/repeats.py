"""An Idempotency-Key that comes again: the turn that it began is shown, live or retold from the log."""

from typing import Any

from flask import Response

from timothy.errors import IdempotencyMismatch
from timothy.eventlog import queries
from timothy.eventlog.records import Mode, Payload
from web import sse
from web.here import system
from web.problems import json_response
from web.requests import respond_async
from web.sessions import existing


def repeat(session_id: str, key: str | None, mode: Mode, asked: Payload | None) -> Response | None:
    """What the send that began this key's turn was answered, live or retold; None when the key is free.

    Raises IdempotencyMismatch when the key began a turn with another message.
    """
    if key is None:
        return None
    here = system()
    turn = here.read(queries.turn_by_key, session_id, key)
    if turn is None:
        return None
    claim = here.claims.get(session_id)  # after the read: a durable turn that has no claim has its evidence
    if turn["mode"] != mode or (asked is not None and not _same(turn, asked)):
        raise IdempotencyMismatch("this Idempotency-Key began a turn with another message: take a new key")
    answer = started(session_id, turn["id"], replayed=True)
    if answer is not None:
        return answer
    if claim is not None and claim.replay.turn_id == turn["id"]:
        return sse.follow(here, claim.replay, 0, replayed=True)
    return _retell(session_id, turn)


def _same(turn: dict[str, Any], asked: Payload) -> bool:
    return (turn["text"], turn["attachments"]) == (asked["text"], asked.get("attachments"))


def _retell(session_id: str, turn: dict[str, Any]) -> Response:
    here = system()
    shown = here.read(queries.turn, session_id, turn["id"])
    records = here.read(queries.turn_records, turn["id"])
    session = existing(session_id)
    assert shown is not None
    told = sse.ended_events(session_id, shown, turn["text"], records[-1], session["title"])
    return sse.retell(session_id, turn["id"], told)


def started(session_id: str, turn_id: str, *, replayed: bool = False) -> Response | None:
    """The 202 of `respond-async`, or None when the caller wants the stream."""
    if not respond_async():
        return None
    response = json_response({"session_id": session_id, "turn_id": turn_id}, 202)
    response.headers["X-Session-Id"] = session_id
    response.headers["X-Turn-Id"] = turn_id
    if replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response
