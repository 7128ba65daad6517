"""A log that goes into a new session: a branch of another one, or an import."""

import uuid
from collections.abc import Iterable
from typing import Any

import peewee

from timothy.database import SessionEvents, Sessions, Turns
from timothy.eventlog import queries
from timothy.eventlog.records import CopySession, ImportSession, Record
from timothy.eventlog.rows import NEXT_ACTIVITY
from timothy.moment import stamp
from timothy.schema import EVIDENCE_KINDS
from timothy.text import to_json

_OUTCOMES = {"assistant_turn": "completed", "turn_failed": "failed", "pending_state": "failed"}
_BY_CODE = {"stopped": "stopped", "interrupted": "interrupted", "server_shutdown": "interrupted"}


def copy(database: peewee.SqliteDatabase, order: CopySession) -> int:
    """The rows of `source_id` up to `seq` as a new session that says where it is from; its last seq."""
    query = SessionEvents.select().where(
        (SessionEvents.session_id == order.source_id) & (SessionEvents.seq <= order.seq)
    )
    rows = query.order_by(SessionEvents.seq).dicts().execute(database)
    records = [queries.record(row) for row in rows]
    origin = {"session_id": order.source_id, "seq": order.seq}
    return _insert(database, order.session_id, order.append_id, order.title, records, origin)


def insert(database: peewee.SqliteDatabase, order: ImportSession) -> int:
    """The given records as a new session; returns its last seq."""
    return _insert(database, order.session_id, order.append_id, order.title, order.records, None)


def _insert(
    database: peewee.SqliteDatabase,
    session_id: str,
    append_id: str,
    title: str | None,
    records: Iterable[Record],
    origin: dict[str, Any] | None,
) -> int:
    now = stamp()
    records = list(records)
    turns = _new_turn_ids(records)
    session: dict[str, Any] = {"id": session_id, "title": title, "created_at": now, "updated_at": now}
    session |= {"origin": _dump(origin), "activity": NEXT_ACTIVITY}
    Sessions.insert(session).execute(database)
    rows = [_row(session_id, turns, record) for record in records]
    rows[-1]["append_id"] = append_id
    for start in range(0, len(rows), 500):
        SessionEvents.insert_many(rows[start : start + 500]).execute(database)
    for turn in _turn_rows(session_id, turns, records):
        Turns.insert(turn).execute(database)
    return len(rows)


def _dump(value: Any) -> str | None:
    return None if value is None else to_json(value).decode()


def _new_turn_ids(records: list[Record]) -> dict[str, str]:
    """A fresh id for every turn that ended within the records; a turn cut off by the end has none."""
    ended = [record.turn_id for record in records if record.turn_id and record.kind in EVIDENCE_KINDS]
    return {turn_id: str(uuid.uuid4()) for turn_id in ended}


def _row(session_id: str, turns: dict[str, str], record: Record) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "seq": record.seq,
        "turn_id": turns.get(record.turn_id or ""),
        "kind": record.kind,
        "payload": to_json(record.payload).decode(),
        "created_at": record.created_at,
        "append_id": None,
    }


def _turn_rows(session_id: str, turns: dict[str, str], records: list[Record]) -> Iterable[dict[str, Any]]:
    user_seq = 0
    started = ""
    for record in records:
        if record.kind == "user_message":
            user_seq, started = record.seq, record.created_at
        if record.kind in EVIDENCE_KINDS and record.turn_id:
            yield _turn_row(session_id, turns[record.turn_id], record, user_seq, started)


def _turn_row(session_id: str, turn_id: str, record: Record, user_seq: int, started: str) -> dict[str, Any]:
    payload = record.payload
    outcome = "incomplete" if payload.get("incomplete") else _OUTCOMES[record.kind]
    return {
        "id": turn_id,
        "session_id": session_id,
        "state": "ended",
        "mode": "new",
        "outcome": _BY_CODE.get(payload.get("code") or "", outcome),
        "code": payload.get("code"),
        "message": payload.get("message"),
        "started_at": started or record.created_at,
        "ended_at": record.created_at,
        "usage": _dump(payload.get("usage")),
        "cost": payload.get("cost"),
        "provider": payload.get("provider"),
        "model": payload.get("model"),
        "user_seq": user_seq,
    }
