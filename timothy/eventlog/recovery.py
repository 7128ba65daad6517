"""What a crash left open is closed before the port opens: every unfinished turn gets its evidence."""

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import peewee

from timothy.database import PendingStates, ToolStarts, Turns
from timothy.errors import Interrupted
from timothy.eventlog import queries
from timothy.eventlog.records import EndTurn, Row
from timothy.eventlog.store import Writer
from timothy.events import AttemptEnded
from timothy.moment import stamp

MESSAGE = "the server was interrupted; the text is what was saved last"
_BATCH = 200


class Recovered(msgspec.Struct, frozen=True):
    """A turn that recovery ended; `characters` of its text were saved."""

    session_id: str
    turn_id: str
    characters: int


def recover(database: peewee.SqliteDatabase, writer: Writer) -> list[Recovered]:
    """End every unfinished turn as `interrupted`, with the last checkpoint's text; returns what was done."""
    unfinished = list(Turns.select().where(Turns.state == "running").dicts().execute(database))
    done: list[Recovered] = []
    for start in range(0, len(unfinished), _BATCH):
        orders = [_evidence(database, turn) for turn in unfinished[start : start + _BATCH]]
        for order, verdict in zip(orders, writer.commit(orders), strict=True):
            if not hasattr(verdict, "seq"):
                raise RuntimeError(f"turn {order.turn_id} cannot be recovered: {verdict}")
            done.append(
                Recovered(order.session_id, order.turn_id, len(order.rows[-1].payload.get("text", "")))
            )
    return done


def _evidence(database: peewee.SqliteDatabase, turn: dict[str, Any]) -> EndTurn:
    pieces = _pieces(database, turn["id"])
    text = "".join(piece["text"] for piece in pieces)
    reasoning = "".join(piece["reasoning"] for piece in pieces)
    provider, model = (pieces[-1]["provider"], pieces[-1]["model"]) if pieces else (None, None)
    rows = [*_open_permissions(database, turn["id"]), *_cut_tools(database, turn["id"])]
    return EndTurn(
        append_id=str(uuid.uuid4()),
        session_id=turn["session_id"],
        turn_id=turn["id"],
        rows=(*rows, _last(text, reasoning, provider, model)),
        outcome="interrupted",
        code=Interrupted.code,
        message=MESSAGE,
        usage=None,
        cost=None,
        provider=provider,
        model=model,
        attempt=_attempt(pieces),
    )


def _pieces(database: peewee.SqliteDatabase, turn_id: str) -> list[dict[str, Any]]:
    query = PendingStates.select().where(PendingStates.turn_id == turn_id).order_by(PendingStates.number)
    return list(query.dicts().execute(database))


def _last(text: str, reasoning: str, provider: str | None, model: str | None) -> Row:
    common: dict[str, Any] = {"code": Interrupted.code, "message": MESSAGE, "duration_ms": None}
    common |= {"provider": provider, "model": model}
    if reasoning:
        common["reasoning"] = reasoning
    if text:
        return Row("pending_state", {"text": text, "final": True, "usage": None, "cost": None, **common})
    return Row("turn_failed", {**common, "retryable": True})


def _open_permissions(database: peewee.SqliteDatabase, turn_id: str) -> Iterator[Row]:
    records = queries.turn_records(database, turn_id)
    resolved = {record.payload["id"] for record in records if record.kind == "permission_resolved"}
    for record in records:
        if record.kind == "permission_request" and record.payload["id"] not in resolved:
            yield Row("permission_resolved", {"id": record.payload["id"], "decision": "cancelled"})


def _cut_tools(database: peewee.SqliteDatabase, turn_id: str) -> Iterator[Row]:
    query = ToolStarts.select().where(ToolStarts.turn_id == turn_id).order_by(ToolStarts.id)
    for start in query.dicts().execute(database):
        payload = {"call_id": start["call_id"], "name": start["name"]}
        payload |= {"input": msgspec.json.decode(start["input"]), "status": "cancelled"}
        yield Row("tool_execution", {**payload, "result": "interrupted, may have run", "duration_ms": None})


def _attempt(pieces: list[dict[str, Any]]) -> AttemptEnded | None:
    """The ledger row of the attempt whose text was saved; its tokens and times are unknown."""
    if not pieces or pieces[-1]["provider"] is None:
        return None
    last = pieces[-1]
    return AttemptEnded(
        provider=last["provider"],
        model=last["model"],
        status="error",
        code=Interrupted.code,
        input_tokens=None,
        output_tokens=None,
        cached_tokens=None,
        cost=None,
        first_token_ms=None,
        duration_ms=0,
        started_at=pieces[0]["saved_at"] or stamp(),
    )
