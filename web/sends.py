"""`/v1/sessions/{id}/messages`: send, and try the last message again."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, Response

from actors.base import Answer
from actors.messages import Accepted, Busy, NotBegun, Send
from timothy import errors
from timothy.errors import BadRequest, NoRetryableTurn, TurnInFlight, UnknownModel
from timothy.eventlog import attachments, files, queries
from timothy.eventlog.records import BeginTurn, Mode, Payload
from timothy.gateway.base import knows
from timothy.moment import stamp
from web import sse
from web.here import request_id, system
from web.repeats import repeat, started
from web.requests import field, idempotency_key, identifier, json_body
from web.sessions import existing

MESSAGE_CHARACTERS = 1_000_000
BEGIN_S = 5.0
MODES: tuple[Mode, ...] = ("again", "continue")

sends = Blueprint("sends", __name__)


@sends.post("/v1/sessions/<session_id>/messages")
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
    repeated = repeat(session_id, key, "new", payload)
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


@sends.post("/v1/sessions/<session_id>/messages/retry")
def retry(session_id: str) -> Response:
    """A new turn on the last user message, whose last turn did not come to a whole answer."""
    session_id = identifier(session_id, "session")
    body = json_body()
    mode = _mode(body)
    model = field(body, "model", str)
    key = idempotency_key()
    existing(session_id)
    repeated = repeat(session_id, key, mode, None)
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
            return started(order.session_id, replay.turn_id) or sse.follow(system(), replay, 0)
        case Busy(turn_id=turn_id):
            again = repeat(order.session_id, key, mode, order.payload)
            if again is not None:
                return again
            raise _in_flight(turn_id)
        case NotBegun(code="key_used"):
            again = repeat(order.session_id, key, mode, order.payload)
            if again is not None:
                return again
            raise errors.StorageUnavailable("the turn of this Idempotency-Key is not there yet: try again")
        case NotBegun(code=code, message=message):
            raise _refusal(code, message)


def _in_flight(turn_id: str | None) -> TurnInFlight:
    return TurnInFlight("a turn runs in this session: watch it, stop it, or wait for it", turn_id=turn_id)


def _refusal(code: str, message: str) -> errors.RequestError:
    kinds = {kind.code: kind for kind in errors.RequestError.__subclasses__()}
    return kinds.get(code, errors.StorageUnavailable)(message)
