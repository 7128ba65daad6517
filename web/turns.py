"""`/v1/sessions/{id}/...`: watch, stop, and read a turn."""

import pykka
from flask import Blueprint, Response, request

from actors.base import Answer
from actors.messages import NoTurn, OtherTurn, Stop, TurnOver
from timothy.errors import NoActiveTurn, NotFound, TurnMismatch
from timothy.eventlog import attachments, queries
from web import sse
from web.here import system
from web.problems import json_response
from web.requests import field, identifier, json_body
from web.sessions import existing

STOP_S = 5.0

turns = Blueprint("turns", __name__)


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


@turns.get("/v1/attachments/<digest>")
def attachment(digest: str) -> Response:
    """The bytes of an attached file; the page shows an image by its `media_type` in the log."""
    here = system()
    kind = request.args.get("media_type", "")
    content_type = kind if kind in attachments.IMAGES else "text/plain; charset=utf-8"
    return Response(here.disk(attachments.content, here.home, digest), content_type=content_type)
