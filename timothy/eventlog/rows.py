"""The log's rows as its writer sees them: what is there, what comes next, what is added."""

from collections.abc import Sequence
from typing import Any

import peewee

from timothy.database import SessionEvents, Sessions
from timothy.eventlog.records import AnyOrder, Row
from timothy.moment import stamp
from timothy.text import to_json


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
        SessionEvents.insert_many(values).execute(self.database)
        self._last_seq[order.session_id] = last
        return last

    def seq(self, session_id: str) -> int:
        """The seq of the session's newest row, 0 when there is none."""
        if session_id not in self._last_seq:
            newest = SessionEvents.select(peewee.fn.MAX(SessionEvents.seq))
            query = newest.where(SessionEvents.session_id == session_id).tuples()
            self._last_seq[session_id] = next(iter(query.execute(self.database)))[0] or 0
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
        return self.exists(Sessions.select().where(Sessions.id == session_id))

    def title(self, session_id: str) -> str | None:
        """The session's title, None when it has none."""
        query = Sessions.select(Sessions.title).where(Sessions.id == session_id).tuples()
        return next((row[0] for row in query.execute(self.database)), None)

    def touch(self, session_id: str, now: str) -> None:
        """The session was active just now."""
        Sessions.update({"updated_at": now}).where(Sessions.id == session_id).execute(self.database)
