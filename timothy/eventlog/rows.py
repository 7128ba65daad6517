"""The log's rows as its writer sees them: what is there, what comes next, what is added."""

from collections.abc import Sequence
from typing import Any

import peewee

from timothy.database import SessionEvents, Sessions
from timothy.eventlog.records import AnyOrder, Row
from timothy.eventlog.statements import Statement, slot, slots
from timothy.moment import stamp
from timothy.text import to_json

_ADD = Statement(
    SessionEvents.insert(
        slots(SessionEvents, "session_id", "seq", "turn_id", "kind", "payload", "created_at", "append_id")
    )
)
_NEWEST = Statement(
    SessionEvents.select(peewee.fn.MAX(SessionEvents.seq)).where(
        SessionEvents.session_id == slot("session_id")
    )
)
_TITLE = Statement(Sessions.select(Sessions.title).where(Sessions.id == slot("id")))
NEXT_ACTIVITY = peewee.SQL("(SELECT COALESCE(MAX(activity), 0) + 1 FROM sessions)")
_TOUCH = Statement(
    Sessions.update({**slots(Sessions, "updated_at"), Sessions.activity: NEXT_ACTIVITY}).where(
        Sessions.id == slot("id")
    )
)


def dump(value: Any) -> str:
    """`value` as the log keeps it: JSON text."""
    return to_json(value).decode()


def execute(database: peewee.SqliteDatabase, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
    """The rows that a plain SQL statement gives."""
    connection: Any = database
    return list(connection.execute_sql(sql, parameters).fetchall())


class Rows:
    """The rows that one connection reads and adds; the newest seq of each session is remembered."""

    def __init__(self, database: peewee.SqliteDatabase) -> None:
        self.database = database
        self._last_seq: dict[str, int] = {}

    def add(self, order: AnyOrder, turn_id: str | None, rows: Sequence[Row]) -> int:
        """Add the rows with their seqs, the order's id on the last one; returns the last seq."""
        first = self.seq(order.session_id) + 1
        now = stamp()
        last = first + len(rows) - 1
        for seq, row in enumerate(rows, start=first):
            _ADD.run(
                self.database,
                session_id=order.session_id,
                seq=seq,
                turn_id=turn_id,
                kind=row.kind,
                payload=dump(row.payload),
                created_at=now,
                append_id=order.append_id if seq == last else None,
            )
        self._last_seq[order.session_id] = last
        return last

    def seq(self, session_id: str) -> int:
        """The seq of the session's newest row, 0 when there is none."""
        if session_id not in self._last_seq:
            ((newest,),) = _NEWEST.run(self.database, session_id=session_id)
            self._last_seq[session_id] = newest or 0
        return self._last_seq[session_id]

    def forget(self, session_id: str) -> None:
        """Read the session's newest seq anew: what was added last may have been taken back."""
        self._last_seq.pop(session_id, None)

    def forget_all(self) -> None:
        """The same for every session."""
        self._last_seq.clear()

    def exists(self, query: Any) -> bool:
        """Whether the query finds anything."""
        return bool(list(query.limit(1).tuples().execute(self.database)))

    def known(self, session_id: str) -> bool:
        """Whether there is such a session."""
        return bool(_TITLE.run(self.database, id=session_id))

    def title(self, session_id: str) -> str | None:
        """The session's title, None when it has none."""
        return next((row[0] for row in _TITLE.run(self.database, id=session_id)), None)

    def touch(self, session_id: str, now: str) -> None:
        """The session was active just now."""
        _TOUCH.run(self.database, id=session_id, updated_at=now)
