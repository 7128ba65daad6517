"""Reading the log: every function takes a connection, reads, closes its cursor and returns plain values."""

from typing import Any

import msgspec
import peewee

from timothy.database import Attempts, Grants, SessionEvents, Sessions, Turns
from timothy.eventlog.context import CONTEXT_KINDS
from timothy.eventlog.records import Record
from timothy.eventlog.rows import execute
from timothy.eventlog.search import holding
from timothy.eventlog.statements import Statement, slot
from timothy.eventlog.transcript import ITEM_KINDS, Item, transcript
from timothy.moment import stamp
from timothy.schema import FILE_HASH, OF_PERMISSIONS, PERMISSION_ID, WITH_FILES

Row = dict[str, Any]

_PUBLIC_TURN = (
    "id",
    "session_id",
    "state",
    "outcome",
    "code",
    "message",
    "started_at",
    "ended_at",
    "usage",
    "cost",
    "provider",
    "model",
)

_SESSION = Statement(Sessions.select().where(Sessions.id == slot("id")))
_OF_SESSION = SessionEvents.session_id == slot("session_id")
_COMPACTION = Statement(
    SessionEvents.select()
    .where(_OF_SESSION & (SessionEvents.kind == "compaction_applied"))
    .order_by(SessionEvents.seq.desc())
    .limit(1)
)
_CONTEXT = Statement(
    SessionEvents.select()
    .where(_OF_SESSION & SessionEvents.kind.in_(CONTEXT_KINDS) & (SessionEvents.seq > slot("upto")))
    .order_by(SessionEvents.seq)
)
_BY_KEY = Statement(
    Turns.select().where((Turns.session_id == slot("session_id")) & (Turns.idempotency_key == slot("key")))
)
_GRANTS = Statement(
    Grants.select()
    .where((Grants.session_id == slot("session_id")) & (Grants.expires_at > slot("now")))
    .order_by(Grants.id)
)


def session(database: peewee.SqliteDatabase, session_id: str) -> Row | None:
    """The session's row, or None."""
    for row in _SESSION.rows(database, id=session_id):
        del row["activity"]
        return _session(row)
    return None


def sessions(
    database: peewee.SqliteDatabase,
    *,
    limit: int,
    search: str = "",
    after: int | None = None,
    archived: bool | None = None,
) -> list[Row]:
    """Up to `limit` sessions, newest activity first, from after the `activity` of a page's last one on."""
    query = Sessions.select()
    if after is not None:
        query = query.where(Sessions.activity < after)
    if archived is not None:
        query = query.where(Sessions.archived == archived)
    if search:
        query = query.where(holding(search))
    query = query.order_by(Sessions.activity.desc()).limit(limit)
    return [_session(row) for row in query.dicts().execute(database)]


def _session(row: Row) -> Row:
    origin = row.pop("origin")
    tools_off = msgspec.json.decode(row["tools_off"])
    origin = origin and msgspec.json.decode(origin)
    return {**row, "archived": bool(row["archived"]), "origin": origin, "tools_off": tools_off}


def branches(database: peewee.SqliteDatabase, session_id: str) -> list[Row]:
    """The sessions that were branched from this one: id, title and the seq up to which they share its log."""
    source = peewee.fn.json_extract(Sessions.origin, "$.session_id")
    query = Sessions.select(Sessions.id, Sessions.title, Sessions.origin).where(source == session_id)
    rows = query.order_by(peewee.SQL("rowid")).tuples().execute(database)
    return [{"id": row[0], "title": row[1], "seq": msgspec.json.decode(row[2])["seq"]} for row in rows]


def events(database: peewee.SqliteDatabase, session_id: str, after: int, limit: int) -> list[Record]:
    """Up to `limit` raw rows with seq over `after`, in order."""
    mine = (SessionEvents.session_id == session_id) & (SessionEvents.seq > after)
    query = SessionEvents.select().where(mine).order_by(SessionEvents.seq).limit(limit)
    return [record(row) for row in query.dicts().execute(database)]


def record(row: Row) -> Record:
    """A row of `session_events` as a Record."""
    payload = msgspec.json.decode(row["payload"])
    return Record(row["session_id"], row["seq"], row["turn_id"], row["kind"], payload, row["created_at"])


def last_seq(database: peewee.SqliteDatabase, session_id: str) -> int:
    """The seq of the session's newest row, 0 when there is none."""
    query = SessionEvents.select(peewee.fn.MAX(SessionEvents.seq)).where(
        SessionEvents.session_id == session_id
    )
    return next(iter(query.tuples().execute(database)))[0] or 0


def items(
    database: peewee.SqliteDatabase, session_id: str, *, before: int | None, limit: int
) -> tuple[list[Item], bool]:
    """The newest `limit` items with seq under `before`, oldest first, and whether older ones exist."""
    mine = (SessionEvents.session_id == session_id) & SessionEvents.kind.in_(tuple(ITEM_KINDS))
    mine &= (SessionEvents.kind != "permission_request") | SessionEvents.turn_id.in_(_running(session_id))
    if before is not None:
        mine &= SessionEvents.seq < before
    query = SessionEvents.select().where(mine).order_by(SessionEvents.seq.desc()).limit(limit + 1)
    rows = list(query.dicts().execute(database))
    page = [record(row) for row in reversed(rows[:limit])]
    return transcript(page, _open(database, session_id, page)), len(rows) > limit


def _running(session_id: str) -> Any:
    return Turns.select(Turns.id).where((Turns.session_id == session_id) & (Turns.state == "running"))


def _open(database: peewee.SqliteDatabase, session_id: str, page: list[Record]) -> frozenset[str]:
    asked = {entry.payload["id"] for entry in page if entry.kind == "permission_request"}
    if not asked:
        return frozenset()
    kind = SessionEvents.kind == "permission_resolved"
    query = SessionEvents.select().where((SessionEvents.session_id == session_id) & kind).dicts()
    return frozenset(asked - {record(row).payload["id"] for row in query.execute(database)})


def turn(database: peewee.SqliteDatabase, session_id: str, turn_id: str) -> Row | None:
    """The turn as the API shows it, with its ledger rows in `attempts`, or None."""
    query = Turns.select().where((Turns.id == turn_id) & (Turns.session_id == session_id)).dicts()
    for row in query.execute(database):
        shown = {name: row[name] for name in _PUBLIC_TURN}
        shown["usage"] = row["usage"] and msgspec.json.decode(row["usage"])
        extra = {"request_id": row["request_id"], "mode": row["mode"], "user_seq": row["user_seq"]}
        return {**shown, **extra, "attempts": attempts(database, turn_id)}
    return None


def attempts(database: peewee.SqliteDatabase, turn_id: str) -> list[Row]:
    """The turn's ledger rows, in order."""
    query = Attempts.select().where(Attempts.turn_id == turn_id).order_by(Attempts.id)
    hidden = ("id", "append_id", "session_id", "turn_id")
    return [
        {name: value for name, value in row.items() if name not in hidden}
        for row in query.dicts().execute(database)
    ]


def turn_by_key(database: peewee.SqliteDatabase, session_id: str, key: str) -> Row | None:
    """The turn that this Idempotency-Key began, with its mode, message and attachments, or None."""
    for row in _BY_KEY.rows(database, session_id=session_id, key=key):
        (message,) = events(database, session_id, row["user_seq"] - 1, 1)
        asked = message.payload
        return {**row, "text": asked["text"], "attachments": asked.get("attachments")}
    return None


def turn_records(database: peewee.SqliteDatabase, turn_id: str) -> list[Record]:
    """Every row of one turn, in order; the last one is its evidence once it ended."""
    query = SessionEvents.select().where(SessionEvents.turn_id == turn_id).order_by(SessionEvents.seq)
    return [record(row) for row in query.dicts().execute(database)]


def last_user_message(database: peewee.SqliteDatabase, session_id: str) -> Record | None:
    """The newest user message of the session, or None."""
    mine = (SessionEvents.session_id == session_id) & (SessionEvents.kind == "user_message")
    query = SessionEvents.select().where(mine).order_by(SessionEvents.seq.desc()).limit(1)
    return next((record(row) for row in query.dicts().execute(database)), None)


def last_turn(database: peewee.SqliteDatabase, session_id: str) -> Row | None:
    """The session's newest turn, ended or not, or None."""
    query = Turns.select().where(Turns.session_id == session_id)
    newest = query.order_by(peewee.SQL("rowid").desc()).limit(1)
    return next(iter(newest.dicts().execute(database)), None)


def context_records(database: peewee.SqliteDatabase, session_id: str) -> list[Record]:
    """The rows that a model's context is made of, in order, from the newest compaction's reach on."""
    upto = 0
    for row in _COMPACTION.rows(database, session_id=session_id):
        upto = record(row).payload["upto_seq"]
    return [record(row) for row in _CONTEXT.rows(database, session_id=session_id, upto=upto)]


def continuations(database: peewee.SqliteDatabase, session_id: str) -> list[str]:
    """The turns that went on with an earlier one's partial answer."""
    turns: Any = Turns
    query = turns.select(turns.id).where((turns.session_id == session_id) & (turns.mode == "continue"))
    return [row[0] for row in query.tuples().execute(database)]


def grants(database: peewee.SqliteDatabase, session_id: str | None = None) -> list[Row]:
    """What a person allowed "for this session" and holds now, in one session or in all."""
    if session_id is not None:
        return _GRANTS.rows(database, session_id=session_id, now=stamp())
    valid = Grants.select().where(Grants.expires_at > stamp())
    return list(valid.order_by(Grants.id).dicts().execute(database))


def permission(database: peewee.SqliteDatabase, permission_id: str) -> Row | None:
    """The request's {"session_id", "decision"}, decision None while it has none; None if unknown."""
    same = peewee.SQL(OF_PERMISSIONS) & (peewee.SQL(PERMISSION_ID) == permission_id)
    rows = [record(row) for row in SessionEvents.select().where(same).dicts().execute(database)]
    if not rows:
        return None
    decision = next((row.payload["decision"] for row in rows if row.kind == "permission_resolved"), None)
    return {"session_id": rows[0].session_id, "decision": decision}


def attached(database: peewee.SqliteDatabase) -> set[str]:
    """The hashes of all files that a message of any session names."""
    query = f"SELECT {FILE_HASH} FROM session_events, json_each(payload, '$.attachments') WHERE {WITH_FILES}"
    return {digest for (digest,) in execute(database, query) if digest is not None}


def outcomes(database: peewee.SqliteDatabase) -> list[tuple[str, int]]:
    """How many turns ended in each way."""
    ended = Turns.select(Turns.outcome, peewee.fn.COUNT(Turns.id)).where(Turns.outcome.is_null(False))
    return list(ended.group_by(Turns.outcome).order_by(Turns.outcome).tuples().execute(database))
