"""The single writer: orders in, rows in one transaction, a verdict for each order out."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import peewee

from timothy.database import (
    Attempts,
    Grants,
    PendingStates,
    SessionEvents,
    Sessions,
    ToolStarts,
    Turns,
)
from timothy.eventlog import copying
from timothy.eventlog.records import (
    AnyOrder,
    AppendRows,
    BeginTurn,
    CopySession,
    CreateSession,
    DeleteSession,
    EndTurn,
    ImportSession,
    Refused,
    RevokeGrant,
    Row,
    UpdateSession,
    Verdict,
    Written,
)
from timothy.events import AttemptEnded
from timothy.moment import stamp
from timothy.text import to_json

STORAGE_FAULTS = (peewee.OperationalError, OSError)
_OF_TURN: tuple[Any, ...] = (PendingStates, ToolStarts)
_PROBE = "REPLACE INTO storage_probe (id, written_at) VALUES (1, ?)"


def dump(value: Any) -> str:
    """`value` as the log keeps it: JSON text."""
    return to_json(value).decode()


def execute(database: peewee.SqliteDatabase, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
    """The rows that a plain SQL statement gives."""
    connection: Any = database
    return list(connection.execute_sql(sql, parameters).fetchall())


class Writer:
    """Commits batches of orders. Used by one native thread at a time; `database` is its own connection."""

    def __init__(self, database: peewee.SqliteDatabase) -> None:
        self._database = database
        self._last_seq: dict[str, int] = {}
        self._work: dict[type[Any], Callable[[Any], Verdict]] = {
            CreateSession: self._create,
            CopySession: self._copy,
            ImportSession: self._import,
            UpdateSession: self._update,
            DeleteSession: self._delete,
            RevokeGrant: self._revoke,
            BeginTurn: self._begin,
            AppendRows: self._append,
            EndTurn: self._end,
        }

    def commit(self, orders: Sequence[AnyOrder]) -> list[Verdict]:
        """All orders in one transaction, each in a savepoint of its own; durable on return.

        No orders at all is a probe: one small row is written to see whether the storage works.
        Raises one of STORAGE_FAULTS when nothing of the batch could be written.
        """
        try:
            with self._database.atomic("IMMEDIATE"):
                if not orders:
                    execute(self._database, _PROBE, (stamp(),))
                return [self._guarded(order) for order in orders]
        except Exception:
            self._last_seq.clear()
            raise

    def close(self) -> None:
        """Fold the WAL into the file and close the connection."""
        execute(self._database, "PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()

    def _guarded(self, order: AnyOrder) -> Verdict:
        try:
            with self._database.savepoint():
                return self._work[type(order)](order)
        except STORAGE_FAULTS:
            raise
        except Exception as error:  # noqa: BLE001  one bad order must not take its neighbours with it
            self._last_seq.pop(order.session_id, None)
            return self._explain(order, error)

    def _explain(self, order: AnyOrder, error: Exception) -> Verdict:
        if isinstance(error, peewee.IntegrityError) and self._is_repeat(order):
            return Written(self._seq(order.session_id), self._title(order.session_id))
        return Refused("append_refused", f"{type(error).__name__}: {error}")

    def _user_seq(self, order: BeginTurn) -> int:
        query = Turns.select(Turns.user_seq).where(Turns.id == order.turn_id).tuples()
        return int(next(iter(query.execute(self._database)))[0])

    def _is_repeat(self, order: AnyOrder) -> bool:
        if isinstance(order, AppendRows) and order.piece is not None:
            same = (PendingStates.turn_id == order.turn_id) & (PendingStates.number == order.piece.number)
            return self._exists(PendingStates.select().where(same))
        if isinstance(order, AppendRows) and order.tool_start is not None:
            started = (ToolStarts.turn_id == order.turn_id) & (ToolStarts.call_id == order.tool_start.call_id)
            return self._exists(ToolStarts.select().where(started))
        if isinstance(order, BeginTurn):
            return self._exists(Turns.select().where(Turns.id == order.turn_id))
        rows = SessionEvents.select().where(SessionEvents.append_id == order.append_id)
        attempts = Attempts.select().where(Attempts.append_id == order.append_id)
        return self._exists(rows) or self._exists(attempts)

    def _exists(self, query: Any) -> bool:
        return bool(list(query.limit(1).tuples().execute(self._database)))

    def _create(self, order: CreateSession) -> Verdict:
        now = stamp()
        session = {"id": order.session_id, "title": order.title, "created_at": now, "updated_at": now}
        Sessions.insert(session).execute(self._database)
        rows = [Row("session_started", {})]
        if order.title is not None:
            rows.append(Row("title_set", {"title": order.title}))
        return Written(self._insert(order, None, rows), order.title)

    def _copy(self, order: CopySession) -> Verdict:
        if not self._exists(Sessions.select().where(Sessions.id == order.source_id)):
            return Refused("not_found", f"no session {order.source_id}")
        return Written(copying.copy(self._database, order), order.title)

    def _import(self, order: ImportSession) -> Verdict:
        return Written(copying.insert(self._database, order), order.title)

    def _update(self, order: UpdateSession) -> Verdict:
        if not self._exists(Sessions.select().where(Sessions.id == order.session_id)):
            return Refused("not_found", f"no session {order.session_id}")
        if order.only_untitled and self._title(order.session_id) is not None:
            return Written(self._seq(order.session_id), self._title(order.session_id))
        tools_off = None if order.tools_off is None else dump(order.tools_off)
        fields = {"title": order.title, "archived": order.archived, "tools_off": tools_off}
        changed = {name: value for name, value in fields.items() if value is not None}
        if changed:
            Sessions.update(changed).where(Sessions.id == order.session_id).execute(self._database)
        if order.title is not None:
            return Written(self._insert(order, None, [Row("title_set", {"title": order.title})]), order.title)
        return Written(self._seq(order.session_id), self._title(order.session_id))

    def _delete(self, order: DeleteSession) -> Verdict:
        mine = [row[0] for row in self._turn_ids(order.session_id)]
        session: Any = Sessions
        if not session.delete().where(session.id == order.session_id).execute(self._database):
            return Refused("not_found", f"no session {order.session_id}")
        of_session: tuple[Any, ...] = (SessionEvents, Turns, Attempts, Grants)
        for table in of_session:
            table.delete().where(table.session_id == order.session_id).execute(self._database)
        for table in _OF_TURN:
            table.delete().where(table.turn_id.in_(mine)).execute(self._database)
        self._last_seq.pop(order.session_id, None)
        return Written()

    def _revoke(self, order: RevokeGrant) -> Verdict:
        grants: Any = Grants
        gone = grants.delete().where(grants.id == order.grant_id).execute(self._database)
        return Written() if gone else Refused("not_found", f"no grant {order.grant_id}")

    def _turn_ids(self, session_id: str) -> list[tuple[str]]:
        query: Any = Turns.select(Turns.id).where(Turns.session_id == session_id)
        return list(query.tuples().execute(self._database))

    def _begin(self, order: BeginTurn) -> Verdict:
        if self._is_repeat(order):
            return Written(self._user_seq(order))
        refusal = self._refusal(order)
        if refusal is not None:
            return refusal
        user_seq = order.user_seq
        if order.payload is not None:
            user_seq = self._insert(order, order.turn_id, [Row("user_message", order.payload)])
        turn = {
            "id": order.turn_id,
            "session_id": order.session_id,
            "state": "running",
            "mode": order.mode,
            "started_at": order.started_at,
            "idempotency_key": order.idempotency_key,
            "user_seq": user_seq,
            "requested_model": order.model,
            "request_id": order.request_id,
        }
        Turns.insert(turn).execute(self._database)
        self._touch(order.session_id, order.started_at)
        return Written(user_seq)

    def _refusal(self, order: BeginTurn) -> Refused | None:
        """Why the turn may not begin, judged by what is in the database now."""
        if not self._exists(Sessions.select().where(Sessions.id == order.session_id)):
            return Refused("not_found", f"no session {order.session_id}")
        if order.idempotency_key is not None:
            same = (Turns.session_id == order.session_id) & (Turns.idempotency_key == order.idempotency_key)
            for row in Turns.select(Turns.id).where(same).tuples().execute(self._database):
                return Refused("key_used", "this Idempotency-Key began a turn already", row[0])
        return None if order.payload is not None else self._retry_refusal(order)

    def _retry_refusal(self, order: BeginTurn) -> Refused | None:
        query = Turns.select(Turns.id, Turns.outcome, Turns.user_seq).where(
            Turns.session_id == order.session_id
        )
        newest = query.order_by(peewee.SQL("rowid").desc()).limit(1)
        last = next(iter(newest.tuples().execute(self._database)), (None, None, None))
        if last[0] != order.last_turn_id:
            return Refused("no_retryable_turn", "another turn came in between")
        if last[1:] == ("completed", order.user_seq):
            return Refused("no_retryable_turn", "the last turn came to a whole answer")
        return None

    def _append(self, order: AppendRows) -> Verdict:
        if order.piece is not None:
            piece = {"turn_id": order.turn_id, "saved_at": stamp(), **msgspec.structs.asdict(order.piece)}
            PendingStates.insert(piece).execute(self._database)
        if order.attempt is not None:
            self._book(order, order.turn_id, order.attempt)
        if order.tool_start is not None:
            self._start_tool(order)
        if order.tool_end is not None:
            starts: Any = ToolStarts
            mine = (starts.turn_id == order.turn_id) & (starts.call_id == order.tool_end)
            starts.delete().where(mine).execute(self._database)
        if order.grant is not None:
            grant = {"session_id": order.session_id, **msgspec.structs.asdict(order.grant)}
            Grants.insert(grant).execute(self._database)
        return Written(self._insert(order, order.turn_id, order.rows) if order.rows else 0)

    def _start_tool(self, order: AppendRows) -> None:
        assert order.tool_start is not None
        start = msgspec.structs.asdict(order.tool_start)
        ToolStarts.insert({"turn_id": order.turn_id, **start, "input": dump(start["input"])}).execute(
            self._database
        )

    def _end(self, order: EndTurn) -> Verdict:
        if order.attempt is not None:
            self._book(order, order.turn_id, order.attempt)
        seq = self._insert(order, order.turn_id, order.rows)
        now = stamp()
        ended = {
            "state": "ended",
            "outcome": order.outcome,
            "code": order.code,
            "message": order.message,
            "ended_at": now,
            "usage": None if order.usage is None else dump(order.usage),
            "cost": order.cost,
            "provider": order.provider,
            "model": order.model,
        }
        Turns.update(ended).where(Turns.id == order.turn_id).execute(self._database)
        for table in _OF_TURN:
            table.delete().where(table.turn_id == order.turn_id).execute(self._database)
        self._touch(order.session_id, now)
        return Written(seq, self._title(order.session_id))

    def _book(self, order: AnyOrder, turn_id: str, attempt: AttemptEnded) -> None:
        row = {"session_id": order.session_id, "turn_id": turn_id, "append_id": order.append_id}
        Attempts.insert({**row, **msgspec.structs.asdict(attempt)}).execute(self._database)

    def _insert(self, order: AnyOrder, turn_id: str | None, rows: Sequence[Row]) -> int:
        """The rows with their seqs, the order's id on the last one; returns the last seq."""
        first = self._seq(order.session_id) + 1
        now = stamp()
        last = first + len(rows) - 1
        values = [
            {
                "session_id": order.session_id,
                "seq": seq,
                "turn_id": turn_id,
                "kind": row.kind,
                "payload": dump(row.payload),
                "created_at": now,
                "append_id": order.append_id if seq == last else None,
            }
            for seq, row in enumerate(rows, start=first)
        ]
        SessionEvents.insert_many(values).execute(self._database)
        self._last_seq[order.session_id] = last
        return last

    def _seq(self, session_id: str) -> int:
        if session_id not in self._last_seq:
            newest = SessionEvents.select(peewee.fn.MAX(SessionEvents.seq))
            query = newest.where(SessionEvents.session_id == session_id).tuples()
            self._last_seq[session_id] = next(iter(query.execute(self._database)))[0] or 0
        return self._last_seq[session_id]

    def _title(self, session_id: str) -> str | None:
        query = Sessions.select(Sessions.title).where(Sessions.id == session_id).tuples()
        return next((row[0] for row in query.execute(self._database)), None)

    def _touch(self, session_id: str, now: str) -> None:
        Sessions.update({"updated_at": now}).where(Sessions.id == session_id).execute(self._database)
