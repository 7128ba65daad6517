"""`/v1/sessions`: create, list, read, rename, archive, delete, and the raw log."""

import base64
import binascii
import time
import uuid
from typing import Any

from flask import Blueprint, Response, request

from actors.base import Answer
from actors.messages import Busy, Exclusive, Wrote
from actors.system import WRITE_S, System
from timothy.errors import BadRequest, NotFound, StorageUnavailable, TurnInFlight
from timothy.eventlog import queries
from timothy.eventlog.records import (
    AnyOrder,
    CopySession,
    CreateSession,
    DeleteSession,
    Refused,
    UpdateSession,
)
from timothy.text import honest
from timothy.upkeep.export import exported
from web.here import system
from web.problems import json_response
from web.requests import field, identifier, json_body, limit, number

TITLE_CHARACTERS = 200
ITEMS = 200

sessions = Blueprint("sessions", __name__)


@sessions.post("/v1/sessions")
def create() -> Response:
    """A new session, empty or with a copy of another's log up to a seq."""
    body = json_body()
    title = field(body, "title", str, most=TITLE_CHARACTERS)
    source = field(body, "from", dict)
    session_id = str(uuid.uuid4())
    order: AnyOrder
    if source is None:
        order = CreateSession(append_id=str(uuid.uuid4()), session_id=session_id, title=title)
    else:
        order = _copy(session_id, title, source)
    refuse(system().write(order))
    return json_response(shown(session_id), 201)


def _copy(session_id: str, title: str | None, source: dict[str, Any]) -> CopySession:
    source_id = identifier(field(source, "session_id", str, required=True) or "", "session")
    row = existing(source_id)
    seq = field(source, "seq", int, required=True) or 0
    last = system().read(queries.last_seq, source_id)
    if not 1 <= seq <= last:
        raise BadRequest(f"`from.seq` must be a whole number from 1 to {last}, the log's end, is {seq}")
    ids = {"append_id": str(uuid.uuid4()), "session_id": session_id}
    return CopySession(**ids, source_id=source_id, seq=seq, title=title or row["title"])


@sessions.get("/v1/sessions")
def listing() -> Response:
    """A page of sessions, newest activity first."""
    most = limit(50)
    here = system()
    rows = here.read(
        queries.sessions,
        limit=most + 1,
        search=honest(request.args.get("query", "")).strip(),  # as texts are kept: no NUL is in any
        after=_decode_cursor(request.args.get("cursor", "")),
        archived=_flag("archived"),
    )
    next_cursor = _encode_cursor(rows[most - 1]["activity"]) if len(rows) > most else None
    page = [_listed(row, here.claims.get(row["id"]) is not None) for row in rows[:most]]
    return json_response({"sessions": page, "next_cursor": next_cursor})


def _listed(row: dict[str, Any], turn_active: bool) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name != "activity"}
    return {**shown, "turn_active": turn_active}


def _flag(name: str) -> bool | None:
    text = request.args.get(name)
    if text not in (None, "true", "false"):
        raise BadRequest(f"`{name}` must be true or false, is {text[:80]!r}")
    return None if text is None else text == "true"


def _encode_cursor(activity: int) -> str:
    return base64.urlsafe_b64encode(f"before {activity}".encode()).decode()


def _decode_cursor(text: str) -> int | None:
    if not text:
        return None
    try:
        word, activity = base64.urlsafe_b64decode(text.encode()).decode().split(" ")
        if word == "before" and activity.isascii() and activity.isdecimal() and len(activity) < 19:
            return int(activity)
    except (ValueError, binascii.Error):
        pass
    raise BadRequest("`cursor` must be the `next_cursor` of an earlier answer")


@sessions.get("/v1/sessions/<session_id>")
def read(session_id: str) -> Response:
    """The session, a page of what a person reads of it, and the running turn."""
    session_id = identifier(session_id, "session")
    most = limit(ITEMS)
    before = number("before", 0, 1, 10**15) or None
    here = system()
    replay = here.claims.replay(session_id)  # the flag is read first: false means all ended turns are in
    row = existing(session_id)
    items, more = here.read(queries.items, session_id, before=before, limit=most)
    turn: dict[str, Any] | None = None
    if replay is not None:
        turn = {"id": replay.turn_id, "state": replay.state, "started_at": replay.started_at}
        turn["last_seq"] = replay.last_seq
    active = replay is not None
    session = {**row, "turn_active": active, "branches": here.read(queries.branches, session_id)}
    return json_response(
        {"session": session, "items": items, "more": more, "turn_active": active, "turn": turn}
    )


@sessions.patch("/v1/sessions/<session_id>")
def update(session_id: str) -> Response:
    """A new title, the archived mark, or both."""
    session_id = identifier(session_id, "session")
    body = json_body()
    title = field(body, "title", str, most=TITLE_CHARACTERS)
    archived = field(body, "archived", bool)
    tools_off = _names(field(body, "tools_off", list))
    if title is None and archived is None and tools_off is None:
        raise BadRequest(
            "nothing to change: give `title` (a string), `archived` (true or false) or `tools_off` (names)"
        )
    order = UpdateSession(
        append_id=str(uuid.uuid4()),
        session_id=session_id,
        title=title,
        archived=archived,
        tools_off=tools_off,
    )
    refuse(system().write(order))
    return json_response(shown(session_id))


def _names(value: list[Any] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    known = system().toolbox.tools
    unknown = [name for name in value if not isinstance(name, str) or name not in known]
    if unknown:
        raise BadRequest(f"`tools_off` names {unknown[0]!r}; there are: {', '.join(known)}")
    return tuple(value)


@sessions.get("/v1/sessions/<session_id>/export")
def export(session_id: str) -> Response:
    """The session as Markdown, or as JSON lines for `timothy import`."""
    row = existing(identifier(session_id, "session"))
    form = request.args.get("format", "markdown")
    if form not in ("markdown", "jsonl"):
        raise BadRequest(f"`format` must be markdown or jsonl, is {form[:80]!r}")
    text = system().read(exported, row, form)
    kind, ending = ("text/markdown", "md") if form == "markdown" else ("application/jsonl", "jsonl")
    response = Response(text, content_type=f"{kind}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="timothy-{row["id"]}.{ending}"'
    return response


@sessions.delete("/v1/sessions/<session_id>")
def delete(session_id: str) -> Response:
    """The session and all that belongs to it go, unless a turn runs."""
    session_id = identifier(session_id, "session")
    answer = Answer()
    order = DeleteSession(append_id=str(uuid.uuid4()), session_id=session_id)
    system().sessions.tell(Exclusive(session_id, order, time.monotonic() + WRITE_S, answer))
    news: Wrote | Busy = answer.verdict()
    if isinstance(news, Busy):
        raise TurnInFlight("a turn runs in this session: stop it first", turn_id=news.turn_id)
    refuse(news.verdict)
    system().tidy_files()
    return Response(status=204)


@sessions.get("/v1/sessions/<session_id>/events")
def events(session_id: str) -> Response:
    """The raw log after a seq."""
    session_id = identifier(session_id, "session")
    most = limit(50)
    after = number("after", 0, 0, 10**15)
    existing(session_id)
    records = system().read(queries.events, session_id, after, most)
    rows = [
        {
            "seq": record.seq,
            "turn_id": record.turn_id,
            "kind": record.kind,
            "payload": record.payload,
            "created_at": record.created_at,
        }
        for record in records
    ]
    return json_response({"events": rows})


def existing(session_id: str) -> dict[str, Any]:
    """The session's row. Raises NotFound."""
    row = system().read(queries.session, session_id)
    if row is None:
        raise NotFound(f"no session {session_id}")
    return row


def shown(session_id: str) -> dict[str, Any]:
    """The session as the API shows it. Raises NotFound."""
    here: System = system()
    active = here.claims.get(session_id) is not None
    return {**existing(session_id), "turn_active": active}


def refuse(verdict: Any) -> None:
    """Raises the error that a refused order is for the caller."""
    if isinstance(verdict, Refused):
        raise (
            NotFound(verdict.message) if verdict.code == "not_found" else StorageUnavailable(verdict.message)
        )
