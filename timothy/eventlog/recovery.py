"""What a crash left open is closed before the port opens: every unfinished turn gets its evidence."""

import uuid
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import msgspec
import peewee

from timothy.database import Attempts, PendingStates, SessionEvents, ToolStarts, Turns
from timothy.errors import Interrupted
from timothy.eventlog.records import EndTurn, Refused, Row
from timothy.eventlog.store import Writer
from timothy.events import AttemptEnded, Tokens

MESSAGE = "the server was interrupted; the text is what was saved last"
MESSAGE_ALONE = "the server was interrupted before any text was saved"
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
        batch = unfinished[start : start + _BATCH]
        left = _Left(database, [turn["id"] for turn in batch])
        orders = [_evidence(left, turn) for turn in batch]
        for order, verdict in zip(orders, writer.commit(orders), strict=True):
            if isinstance(verdict, Refused):
                raise RuntimeError(f"turn {order.turn_id} cannot be recovered: {verdict.message}")
            done.append(
                Recovered(order.session_id, order.turn_id, len(order.rows[-1].payload.get("text", "")))
            )
    return done


class _Left:
    """What turns left behind, by turn: a query for many turns costs hardly more than one for one."""

    def __init__(self, database: peewee.SqliteDatabase, turn_ids: list[str]) -> None:
        asked = SessionEvents.kind.in_(("permission_request", "permission_resolved"))
        self.pieces = _of(database, turn_ids, PendingStates, PendingStates.number)
        self.tools = _of(database, turn_ids, ToolStarts, ToolStarts.id)
        self.attempts = _of(database, turn_ids, Attempts, Attempts.id)
        self.permissions = _of(database, turn_ids, SessionEvents, SessionEvents.seq, asked)


def _of(
    database: peewee.SqliteDatabase, turn_ids: list[str], table: Any, order: Any, *where: Any
) -> dict[str, list[dict[str, Any]]]:
    """The rows of these turns in `table`, in order, by turn."""
    found: dict[str, list[dict[str, Any]]] = {turn_id: [] for turn_id in turn_ids}
    query = table.select().where(table.turn_id.in_(turn_ids), *where).order_by(order)
    for row in query.dicts().execute(database):
        found[row["turn_id"]].append(row)
    return found


def _evidence(left: _Left, turn: dict[str, Any]) -> EndTurn:
    pieces = left.pieces[turn["id"]]
    text = "".join(piece["text"] for piece in pieces)
    reasoning = "".join(piece["reasoning"] for piece in pieces)
    attempts = left.attempts[turn["id"]]
    spoke = [*(row for row in reversed(pieces) if row["provider"]), *reversed(attempts)]
    provider, model = (spoke[0]["provider"], spoke[0]["model"]) if spoke else (None, None)
    usage = _usage(attempts)
    last = _last(text, reasoning, provider, model, usage)
    rows = [*_open_permissions(left.permissions[turn["id"]]), *_cut_tools(left.tools[turn["id"]])]
    return EndTurn(
        append_id=str(uuid.uuid4()),
        session_id=turn["session_id"],
        turn_id=turn["id"],
        rows=(*rows, last),
        outcome="interrupted",
        code=Interrupted.code,
        message=last.payload["message"],
        usage=usage,
        cost=None,  # what the request that was under way cost is unknown
        provider=provider,
        model=model,
        attempt=_attempt(pieces),
    )


def _usage(attempts: list[dict[str, Any]]) -> Tokens | None:
    """The tokens of the attempts that were booked, or None when nobody told any."""
    columns = ([row[name] for row in attempts] for name in Tokens.__struct_fields__)
    sums = [sum(told) if (told := [n for n in column if n is not None]) else None for column in columns]
    return None if sums == [None, None, None] else Tokens(*sums)


def _last(text: str, reasoning: str, provider: str | None, model: str | None, usage: Tokens | None) -> Row:
    message = MESSAGE if text else MESSAGE_ALONE
    common: dict[str, Any] = {"code": Interrupted.code, "message": message, "duration_ms": None}
    common |= {"provider": provider, "model": model}
    if reasoning:
        common["reasoning"] = reasoning
    if text:
        tokens = None if usage is None else msgspec.structs.asdict(usage)
        return Row("pending_state", {"text": text, "final": True, "usage": tokens, "cost": None, **common})
    return Row("turn_failed", {**common, "retryable": True})


def _open_permissions(rows: list[dict[str, Any]]) -> Iterator[Row]:
    payloads = [(row["kind"], msgspec.json.decode(row["payload"])["id"]) for row in rows]
    resolved = {permission_id for kind, permission_id in payloads if kind == "permission_resolved"}
    for kind, permission_id in payloads:
        if kind == "permission_request" and permission_id not in resolved:
            yield Row("permission_resolved", {"id": permission_id, "decision": "cancelled"})


def _cut_tools(starts: list[dict[str, Any]]) -> Iterator[Row]:
    for start in starts:
        payload = {"call_id": start["call_id"], "name": start["name"]}
        payload |= {"input": msgspec.json.decode(start["input"]), "status": "cancelled"}
        yield Row("tool_execution", {**payload, "result": "interrupted, may have run", "duration_ms": None})


def _attempt(pieces: list[dict[str, Any]]) -> AttemptEnded | None:
    """The ledger row of the attempt whose text was saved, unless it is booked; what it cost is unknown."""
    own = list(takewhile(lambda piece: piece["provider"], reversed(pieces)))
    if not own:
        return None
    last, first = own[0], own[-1]
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
        started_at=first["saved_at"],
    )
