"""Event streams over HTTP: a viewer as a response, and an ended turn told again from the log."""

import contextlib
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Response, request

from actors.system import System
from actors.viewer import OPENING, ViewerActor
from timothy.errors import BadRequest
from timothy.eventlog.records import Record
from timothy.events import (
    Done,
    Error,
    Event,
    Incomplete,
    Meta,
    ReasoningDelta,
    TextDelta,
    Tokens,
    TurnStarted,
    frame,
)
from timothy.turn.replay import Replay

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
# How the servers that may run this hand over the client's socket.
_SOCKETS = ("timothy.socket", "werkzeug.socket")
_CURSOR = re.compile(r"(?:([0-9A-Za-z-]{1,64}):)?([0-9]{1,1000})")


def follow(system: System, replay: Replay, cursor: int, *, replayed: bool = False) -> Response:
    """The turn's stream from after `cursor` on, until its end."""
    viewer = ViewerActor(replay, cursor, system.viewers, _shutter())
    response = Response(viewer, headers=HEADERS, direct_passthrough=True)
    return _labelled(response, replay.session_id, replay.turn_id, replayed)


def retell(session_id: str, turn_id: str, events: Iterable[Event]) -> Response:
    """An ended turn's stream, rebuilt: the events numbered anew."""
    frames = [frame(event, turn_id, seq) for seq, event in enumerate(events, start=1)]
    return _labelled(Response([OPENING, *frames], headers=HEADERS), session_id, turn_id, True)


def cursor(replay: Replay) -> int:
    """Where `?after=` (or else `Last-Event-ID`) says to go on; 0 for another turn's. Raises BadRequest."""
    text = request.args.get("after")
    if text is None:
        text = request.headers.get("Last-Event-ID") or None  # an empty one means none, as browsers have it
    if text is None:
        return 0
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise BadRequest(f"the cursor {text[:80]!r} cannot be read: write TURN_ID:SEQ, or SEQ")
    seq = int(match[2])
    same = match[1] is None or match[1].lower() == replay.turn_id
    return seq if same and seq <= replay.last_seq else 0


def ended_events(
    session_id: str, turn: dict[str, Any], message: str, evidence: Record, title: str | None
) -> Iterator[Event]:
    """An ended turn as a viewer sees it that comes too late: start, text, terminal, meta."""
    payload = evidence.payload
    usage = Tokens(**turn["usage"]) if turn["usage"] else None
    yield TurnStarted(session_id, turn["started_at"], message)
    if payload.get("reasoning"):
        yield ReasoningDelta(payload["reasoning"])
    if payload.get("text"):
        yield TextDelta(payload["text"])
    if payload.get("incomplete"):
        yield Incomplete(payload["incomplete"])
    yield _terminal(evidence)
    yield Meta(
        session_id=session_id,
        outcome=turn["outcome"],
        provider=turn["provider"],
        model=turn["model"],
        usage=usage,
        cost=turn["cost"],
        duration_ms=payload.get("duration_ms"),
        title=title,
    )


def _terminal(evidence: Record) -> Done | Error:
    payload = evidence.payload
    if evidence.kind == "assistant_turn":
        return Done(payload["finish_reason"])
    return Error(payload["code"], payload["message"], bool(payload.get("retryable", True)))


def _labelled(response: Response, session_id: str, turn_id: str, replayed: bool) -> Response:
    response.headers["X-Session-Id"] = session_id
    response.headers["X-Turn-Id"] = turn_id
    if replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response


def _shutter() -> Callable[[], None]:
    """What ends this request's connection from outside, through the socket that the server hands over."""
    connection: socket.socket | None = next(
        (request.environ[name] for name in _SOCKETS if name in request.environ), None
    )

    def shut() -> None:
        if connection is not None:
            with contextlib.suppress(OSError):  # gone already
                connection.shutdown(socket.SHUT_RDWR)

    return shut
