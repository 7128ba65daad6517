"""`/v1/sessions/{id}/...`: send, retry, watch, stop, and read a turn."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pykka
from flask import Blueprint, Response, request

from actors.base import Answer
from actors.messages import Accepted, Busy, NotBegun, NoTurn, OtherTurn, Send, Stop, TurnOver
from timothy import errors
from timothy.errors import (
    BadRequest,
    IdempotencyMismatch,
    NoActiveTurn,
    NoRetryableTurn,
    NotFound,
    TurnInFlight,
    TurnMismatch,
    UnknownModel,
)
from timothy.eventlog import attachments, files, queries
from timothy.eventlog.records import BeginTurn, Mode, Payload
from timothy.gateway.base import knows
from timothy.moment import stamp
from web import sse
from web.here import request_id, system
from web.problems import json_response
from web.requests import field, idempotency_key, identifier, json_body, respond_async
from web.sessions import existing

MESSAGE_CHARACTERS = 1_000_000
BEGIN_S = 5.0
STOP_S = 5.0
MODES: tuple[Mode, ...] = ("again", "continue")

turns = Blueprint("turns", __name__)


@turns.post("/v1/sessions/<session_id>/messages")
def send(session_id: str) -> Response:
    """A new turn on a new message; the stream, or with `Prefer: respond-async` only its ids."""
    session_id = identifier(session_id, "session")
    body = json_body()
    text = field(body, "message", str, required=True, most=MESSAGE_CHARACTERS) or ""
    model = field(body, "model", str)
    given = attachments.parse(field(body, "attachments", list) or [])
    key = idempotency_key()
    existing(session_id)
    payload = _payload(text, given)
    repeated = _repeat(session_id, key, "new", payload)
    if repeated is not None:
        return repeated
    _check_model(model)
    if model:
        payload["model"] = model
    with _kept(given):
        return _begin(_order(session_id, "new", key, model, payload=payload), text)


def _payload(text: str, given: list[attachments.Attachment]) -> Payload:
    """The message as the log keeps it; a repeat has all of it in common, but the model."""
    payload: Payload = {"text": text}
    if given:
        payload["attachments"] = system().disk(attachments.described, given)
    return payload


@contextmanager
def _kept(given: list[attachments.Attachment]) -> Iterator[None]:
    """Attached files are in the home before the message is in the log; until then nobody forgets them."""
    if not given:
        yield
        return
    here = system()
    with here.disk(files.hold, here.home):
        here.disk(attachments.keep, here.home, given)
        yield


@turns.get("/v1/attachments/<digest>")
def attachment(digest: str) -> Response:
    """The bytes of an attached file; the page shows an image by its `media_type` in the log."""
    here = system()
    kind = request.args.get("media_type", "")
    content_type = kind if kind in attachments.IMAGES else "text/plain; charset=utf-8"
    return Response(here.disk(attachments.content, here.home, digest), content_type=content_type)


@turns.post("/v1/sessions/<session_id>/messages/retry")
def retry(session_id: str) -> Response:
    """A new turn on the last user message, whose last turn did not come to a whole answer."""
    session_id = identifier(session_id, "session")
    body = json_body()
    mode = _mode(body)
    model = field(body, "model", str)
    key = idempotency_key()
    existing(session_id)
    repeated = _repeat(session_id, key, mode, None)
    if repeated is not None:
        return repeated
    _check_model(model)
    here = system()
    claim = here.claims.get(session_id)
    if claim is not None:
        raise _in_flight(claim.replay.turn_id)
    message = here.read(queries.last_user_message, session_id)
    last = here.read(queries.last_turn, session_id)
    if message is None:
        raise NoRetryableTurn("there is no message in this session to answer again")
    if last is not None and last["outcome"] == "completed" and last["user_seq"] == message.seq:
        raise NoRetryableTurn("the last turn came to a whole answer: branch to answer the message anew")
    last_turn_id = last["id"] if last else None
    chosen = model or _still_offered(message.payload.get("model"))
    order = _order(session_id, mode, key, chosen, user_seq=message.seq, last_turn_id=last_turn_id)
    return _begin(order, message.payload["text"])


def _mode(body: dict[str, Any]) -> Mode:
    given = field(body, "mode", str) or "again"
    for mode in MODES:
        if mode == given:
            return mode
    raise BadRequest(f"`mode` must be one of {', '.join(MODES)}, is {given[:80]!r}")


def _still_offered(model: str | None) -> str | None:
    """The model that the message asked for, or the chain's own order when it is there no more."""
    return model if model is not None and knows(system().gateway, model) else None


def _check_model(model: str | None) -> None:
    """After the key: a repeat gets its turn also when the model that answered is offered no more."""
    if model is not None and not knows(system().gateway, model):
        known = ", ".join(row.id for row in system().gateway.models()) or "none"
        raise UnknownModel(f"no model {model[:80]!r}; there are: {known}")


def _order(session_id: str, mode: Mode, key: str | None, model: str | None, **more: Any) -> BeginTurn:
    return BeginTurn(
        append_id=str(uuid.uuid4()),
        session_id=session_id,
        turn_id=str(uuid.uuid4()),
        mode=mode,
        started_at=stamp(),
        idempotency_key=key,
        model=model,
        request_id=request_id(),
        **more,
    )


def _begin(order: BeginTurn, text: str) -> Response:
    """Claim the session and wait for the writer's verdict; the 200 leaves when the turn is durable."""
    answer = Answer()
    system().sessions.tell(Send(order.session_id, order, text, time.monotonic() + BEGIN_S, answer))
    news: Accepted | Busy | NotBegun = answer.verdict()
    key, mode = order.idempotency_key, order.mode
    match news:
        case Accepted(replay=replay):
            return _started(order.session_id, replay.turn_id) or sse.follow(system(), replay, 0)
        case Busy(turn_id=turn_id):
            again = _repeat(order.session_id, key, mode, order.payload)
            if again is not None:
                return again
            raise _in_flight(turn_id)
        case NotBegun(code="key_used"):
            again = _repeat(order.session_id, key, mode, order.payload)
            if again is not None:
                return again
            raise errors.StorageUnavailable("the turn of this Idempotency-Key is not there yet: try again")
        case NotBegun(code=code, message=message):
            raise _refusal(code, message)


def _started(session_id: str, turn_id: str, *, replayed: bool = False) -> Response | None:
    """The 202 of `respond-async`, or None when the caller wants the stream."""
    if not respond_async():
        return None
    response = json_response({"session_id": session_id, "turn_id": turn_id}, 202)
    response.headers["X-Session-Id"] = session_id
    response.headers["X-Turn-Id"] = turn_id
    if replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response


def _in_flight(turn_id: str | None) -> TurnInFlight:
    return TurnInFlight("a turn runs in this session: watch it, stop it, or wait for it", turn_id=turn_id)


def _refusal(code: str, message: str) -> errors.RequestError:
    kinds = {kind.code: kind for kind in errors.RequestError.__subclasses__()}
    return kinds.get(code, errors.StorageUnavailable)(message)


def _repeat(session_id: str, key: str | None, mode: Mode, asked: Payload | None) -> Response | None:
    """The stream of the turn that this key began, live or retold; None when the key is free."""
    if key is None:
        return None
    here = system()
    turn = here.read(queries.turn_by_key, session_id, key)
    if turn is None:
        return None
    claim = here.claims.get(session_id)  # after the read: a durable turn that has no claim has its evidence
    if turn["mode"] != mode or (asked is not None and not _same(turn, asked)):
        raise IdempotencyMismatch("this Idempotency-Key began a turn with another message: take a new key")
    started = _started(session_id, turn["id"], replayed=True)
    if started is not None:
        return started
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


@turns.get("/v1/sessions/<session_id>/live")
def live(session_id: str) -> Response:
    """The running turn's stream, from the start or from a cursor."""
    session_id = identifier(session_id, "session")
    replay = system().claims.replay(session_id)
    if replay is None:
        existing(session_id)
        raise NoActiveTurn("no turn runs in this session")
    return sse.follow(system(), replay, sse.cursor(replay))


@turns.get("/v1/sessions/<session_id>/turns/<turn_id>")
def turn(session_id: str, turn_id: str) -> Response:
    """One turn, with its attempts."""
    session_id, turn_id = identifier(session_id, "session"), identifier(turn_id, "turn")
    replay = system().claims.replay(session_id)
    row = system().read(queries.turn, session_id, turn_id)
    if row is None:
        raise NotFound(f"no turn {turn_id} in session {session_id}")
    if row["state"] != "ended" and replay is not None and replay.turn_id == turn_id:
        row["state"] = replay.state if replay.state != "ended" else "running"
    return json_response(row)


@turns.post("/v1/sessions/<session_id>/stop")
def stop(session_id: str) -> Response:
    """End the running turn; answers when its evidence is durable, or after 5 s that it is stopping."""
    session_id = identifier(session_id, "session")
    wanted = field(json_body(), "turn_id", str)
    existing(session_id)
    answer = Answer()
    order = Stop(session_id, wanted and wanted.lower(), "stopped", "stopped by the user", answer)
    claim = system().claims.get(session_id)
    system().sessions.tell(order)
    try:
        news: TurnOver | NoTurn | OtherTurn = answer.get(timeout=STOP_S)
    except pykka.Timeout:
        turn_id = claim.replay.turn_id if claim else wanted
        return json_response({"turn_id": turn_id, "state": "stopping"}, 202)
    match news:
        case TurnOver(turn_id=turn_id, outcome=outcome):
            return json_response({"turn_id": turn_id, "outcome": outcome})
        case OtherTurn(turn_id=turn_id):
            raise TurnMismatch(f"another turn runs: {turn_id}", turn_id=turn_id)
        case NoTurn():
            raise NoActiveTurn("no turn runs in this session")
