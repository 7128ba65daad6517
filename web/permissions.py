"""`/v1/permissions` and `/v1/tools`: what waits for a person, and what the assistant can do."""

import uuid
from typing import Any

import msgspec
from flask import Blueprint, Response
from pykka import ActorRef

from actors.base import Answer, deliver
from actors.claims import Parked
from actors.messages import Answered, AnswerPermission
from timothy.errors import AlreadyResolved, BadRequest, NotFound
from timothy.eventlog import queries
from timothy.eventlog.records import RevokeGrant
from timothy.tools.mcp import ServerStatus
from web.here import system
from web.problems import json_response
from web.requests import field, identifier, json_body
from web.sessions import refuse

DECISIONS = ("once", "session", "deny")
ANSWER_S = 10.0

permissions = Blueprint("permissions", __name__)


@permissions.post("/v1/permissions/<permission_id>")
def answer(permission_id: str) -> Response:
    """A person's answer; the first one wins."""
    permission_id = identifier(permission_id, "permission request")
    decision = field(json_body(), "decision", str, required=True)
    if decision not in DECISIONS:
        raise BadRequest(f"`decision` must be one of {', '.join(DECISIONS)}, is {str(decision)[:80]!r}")
    turn = _turn(permission_id)
    reply = Answer()
    if turn is None or not deliver(turn, AnswerPermission(permission_id, decision, reply)):
        raise _resolved(permission_id)
    news: Answered = reply.get(timeout=ANSWER_S)
    if not news.first:
        raise AlreadyResolved(f"this was answered already: {news.decision}", decision=news.decision)
    return json_response({"ok": True, "decision": news.decision})


def _turn(permission_id: str) -> ActorRef[Any] | None:
    """The turn that asked, while it runs: it knows of an answer before the log does."""
    parked = system().pending.get(permission_id)
    if parked is not None:
        return parked.turn
    row = system().read(queries.permission, permission_id)
    if row is None or row["decision"] is not None:
        return None
    claim = system().claims.get(row["session_id"])
    return claim.turn if claim is not None else None


def _resolved(permission_id: str) -> AlreadyResolved | NotFound:
    row = system().read(queries.permission, permission_id)
    if row is None:
        return NotFound(f"no permission request {permission_id}")
    decision = row["decision"] or "cancelled"
    return AlreadyResolved(f"this was answered already: {decision}", decision=decision)


@permissions.get("/v1/permissions/pending")
def pending() -> Response:
    """Everything that waits for a person now."""
    return json_response({"pending": [_row(parked) for parked in system().pending.all()]})


def _row(parked: Parked) -> dict[str, Any]:
    session = system().read(queries.session, parked.session_id)
    request = msgspec.to_builtins(parked.request)
    request.pop("type", None)
    return {
        **request,
        "session_id": parked.session_id,
        "session_title": session["title"] if session else None,
        "turn_id": parked.turn_id,
        "requested_at": parked.requested_at,
    }


@permissions.get("/v1/tools")
def tools() -> Response:
    """What the assistant can do, and what it may do unasked."""
    here = system()
    here.toolbox.refresh()
    servers = [_server(status) for status in here.toolbox.servers.status()]
    grants = here.read(queries.grants)
    return json_response({"tools": here.toolbox.rows(), "grants": grants, "servers": servers})


def _server(status: ServerStatus) -> dict[str, Any]:
    shown = msgspec.to_builtins(status)
    del shown["listed"]
    return dict(shown)


@permissions.delete("/v1/grants/<int(max=9223372036854775807):grant_id>")
def revoke(grant_id: int) -> Response:
    """A "for this session" answer does not hold any more."""
    refuse(system().write(RevokeGrant(append_id=str(uuid.uuid4()), session_id="", grant_id=grant_id)))
    return Response(status=204)
