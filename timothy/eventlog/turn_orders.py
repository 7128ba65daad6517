"""Orders about one turn: begin it, append to it, end it."""

from typing import Any

import msgspec
import peewee

from timothy.database import Attempts, Grants, PendingStates, SessionEvents, ToolStarts, Turns
from timothy.errors import TurnAborted
from timothy.eventlog.records import (
    AnyOrder,
    AppendRows,
    BeginTurn,
    EndTurn,
    Payload,
    Piece,
    Refused,
    Row,
    Verdict,
    Written,
)
from timothy.eventlog.rows import Rows, dump
from timothy.eventlog.statements import Statement, slot, slots
from timothy.events import AttemptEnded
from timothy.moment import stamp

_BEGUN = Statement(Turns.select(Turns.user_seq).where(Turns.id == slot("id")))
_BEGIN = Statement(
    Turns.insert(
        slots(
            Turns,
            *("id", "session_id", "state", "mode", "started_at", "idempotency_key", "user_seq"),
            *("requested_model", "request_id"),
        )
    )
)
_PIECE = Statement(
    PendingStates.insert(slots(PendingStates, "turn_id", "saved_at", *Piece.__struct_fields__))
)
_BOOK = Statement(
    Attempts.insert(slots(Attempts, "session_id", "turn_id", "append_id", *AttemptEnded.__struct_fields__))
)
_END = Statement(
    Turns.update(
        slots(
            Turns,
            *("state", "outcome", "code", "message", "ended_at", "usage", "cost", "provider", "model"),
        )
    ).where(Turns.id == slot("id"))
)
_OF_TURN: tuple[Any, ...] = (PendingStates, ToolStarts)
_CLEAR = [Statement(table.delete().where(table.turn_id == slot("turn_id"))) for table in _OF_TURN]
_ASKED = "permission_request"
_ENDED_BY = {"tool_execution": "call_id", "permission_resolved": "id"}  # and the key of what ended


class TurnOrders:
    """Carries one order out inside the writer's transaction; a database error is the writer's to name."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def begin(self, order: BeginTurn) -> Verdict:
        """The turn's row and its message, if what was read before still holds."""
        for (user_seq,) in _BEGUN.run(self._rows.database, id=order.turn_id):
            return Written(user_seq)  # a repeat
        refusal = self._refusal(order)
        if refusal is not None:
            return refusal
        user_seq = order.user_seq
        if order.payload is not None:
            user_seq = self._rows.add(order, order.turn_id, [Row("user_message", order.payload)])
        _BEGIN.run(
            self._rows.database,
            id=order.turn_id,
            session_id=order.session_id,
            state="running",
            mode=order.mode,
            started_at=order.started_at,
            idempotency_key=order.idempotency_key,
            user_seq=user_seq,
            requested_model=order.model,
            request_id=order.request_id,
        )
        self._rows.touch(order.session_id, order.started_at)
        return Written(user_seq)

    def append(self, order: AppendRows) -> Verdict:
        """What the turn leaves on its way; what a title cost is refused once the session is deleted."""
        if order.attempt is not None and not self._rows.known(order.session_id):
            return Refused("not_found", f"no session {order.session_id}")
        if order.piece is not None:
            piece = msgspec.structs.asdict(order.piece)
            _PIECE.run(self._rows.database, turn_id=order.turn_id, saved_at=stamp(), **piece)
        if order.attempt is not None:
            self._book(order, order.turn_id, order.attempt)
        if order.tool_start is not None:
            start = {"turn_id": order.turn_id, **msgspec.structs.asdict(order.tool_start)}
            ToolStarts.insert({**start, "input": dump(start["input"])}).execute(self._rows.database)
        if order.tool_end is not None:
            starts: Any = ToolStarts
            mine = (starts.turn_id == order.turn_id) & (starts.call_id == order.tool_end)
            starts.delete().where(mine).execute(self._rows.database)
        if order.grant is not None:
            grant = {"session_id": order.session_id, **msgspec.structs.asdict(order.grant)}
            Grants.insert(grant).execute(self._rows.database)
        return Written(self._rows.add(order, order.turn_id, order.rows) if order.rows else 0)

    def end(self, order: EndTurn) -> Verdict:
        """The last rows, which end everything once, and the turn's row with how it ended."""
        if order.attempt is not None:
            self._book(order, order.turn_id, order.attempt)
        seq = self._rows.add(order, order.turn_id, self._settled(order))
        now = stamp()
        _END.run(
            self._rows.database,
            id=order.turn_id,
            state="ended",
            outcome=order.outcome,
            code=order.code,
            message=order.message,
            ended_at=now,
            usage=None if order.usage is None else dump(order.usage),
            cost=order.cost,
            provider=order.provider,
            model=order.model,
        )
        for clear in _CLEAR:
            clear.run(self._rows.database, turn_id=order.turn_id)
        self._rows.touch(order.session_id, now)
        return Written(seq, self._rows.title(order.session_id))

    def _refusal(self, order: BeginTurn) -> Refused | None:
        """Why the turn may not begin, judged by what is in the database now."""
        if not self._rows.known(order.session_id):
            return Refused("not_found", f"no session {order.session_id}")
        if order.idempotency_key is not None:
            same = (Turns.session_id == order.session_id) & (Turns.idempotency_key == order.idempotency_key)
            for row in Turns.select(Turns.id).where(same).tuples().execute(self._rows.database):
                return Refused("key_used", "this Idempotency-Key began a turn already", row[0])
        return None if order.payload is not None else self._retry_refusal(order)

    def _retry_refusal(self, order: BeginTurn) -> Refused | None:
        query = Turns.select(Turns.id, Turns.outcome, Turns.user_seq).where(
            Turns.session_id == order.session_id
        )
        newest = query.order_by(peewee.SQL("rowid").desc()).limit(1)
        last = next(iter(newest.tuples().execute(self._rows.database)), (None, None, None))
        if last[0] != order.last_turn_id:
            return Refused("no_retryable_turn", "another turn came in between")
        if last[1:] == ("completed", order.user_seq):
            return Refused("no_retryable_turn", "the last turn came to a whole answer")
        return None

    def _settled(self, order: EndTurn) -> list[Row]:
        """The order's rows without those that say the end of what the log knows to have ended.

        A turn that died between a record and its event is ended from its events: they do not know of it,
        nor of a request that was recorded and not shown.
        """
        rows = list(order.rows)
        if len(rows) == 1 and order.code != TurnAborted.code:
            return rows
        known = self._known(order.turn_id)
        ended = {(kind, name) for kind, name in known if kind in _ENDED_BY}
        rows = [row for row in rows if _end(row.kind, row.payload) not in ended]
        ended |= {_end(row.kind, row.payload) for row in rows}
        left = [name for kind, name in known if kind == _ASKED and ("permission_resolved", name) not in ended]
        return [*(Row("permission_resolved", {"id": name, "decision": "cancelled"}) for name in left), *rows]

    def _known(self, turn_id: str) -> list[tuple[str, Any]]:
        """What the log has of the turn's tools and requests: kinds, and what they are about."""
        kinds = SessionEvents.kind.in_((*_ENDED_BY, _ASKED))
        query = SessionEvents.select(SessionEvents.kind, SessionEvents.payload).where(
            (SessionEvents.turn_id == turn_id) & kinds
        )
        rows = query.order_by(SessionEvents.seq).tuples().execute(self._rows.database)
        return [(kind, msgspec.json.decode(payload)[_ENDED_BY.get(kind, "id")]) for kind, payload in rows]

    def _book(self, order: AnyOrder, turn_id: str, attempt: AttemptEnded) -> None:
        row = {"session_id": order.session_id, "turn_id": turn_id, "append_id": order.append_id}
        _BOOK.run(self._rows.database, **row, **msgspec.structs.asdict(attempt))


def _end(kind: str, payload: Payload) -> tuple[str, Any]:
    return kind, payload.get(_ENDED_BY.get(kind, ""))
