"""Orders about whole sessions: make, copy, bring in, change, delete."""

from typing import Any

from timothy.database import Attempts, Grants, PendingStates, SessionEvents, Sessions, ToolStarts, Turns
from timothy.eventlog import copying
from timothy.eventlog.records import (
    CopySession,
    CreateSession,
    DeleteSession,
    ImportSession,
    Refused,
    RevokeGrant,
    Row,
    UpdateSession,
    Verdict,
    Written,
)
from timothy.eventlog.rows import NEXT_ACTIVITY, Rows, dump
from timothy.moment import stamp

_OF_SESSION: tuple[Any, ...] = (SessionEvents, Turns, Attempts, Grants)
_OF_TURN: tuple[Any, ...] = (PendingStates, ToolStarts)


class SessionOrders:
    """Carries one order out inside the writer's transaction; a database error is the writer's to name."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def create(self, order: CreateSession) -> Verdict:
        """A new session with its first row."""
        now = stamp()
        session = {"id": order.session_id, "title": order.title, "created_at": now, "updated_at": now}
        Sessions.insert({**session, "activity": NEXT_ACTIVITY}).execute(self._rows.database)
        rows = [Row("session_started", {})]
        if order.title is not None:
            rows.append(Row("title_set", {"title": order.title}))
        return Written(self._rows.add(order, None, rows), order.title)

    def copy(self, order: CopySession) -> Verdict:
        """A new session with a copy of another's log."""
        if not self._rows.known(order.source_id):
            return Refused("not_found", f"no session {order.source_id}")
        return Written(copying.copy(self._rows.database, order), order.title)

    def bring_in(self, order: ImportSession) -> Verdict:
        """A new session with the given records."""
        return Written(copying.insert(self._rows.database, order), order.title)

    def update(self, order: UpdateSession) -> Verdict:
        """Change what the order names; a title leaves a row."""
        if not self._rows.known(order.session_id):
            return Refused("not_found", f"no session {order.session_id}")
        if order.only_untitled and self._rows.title(order.session_id) is not None:
            return Written(self._rows.seq(order.session_id), self._rows.title(order.session_id))
        tools_off = None if order.tools_off is None else dump(order.tools_off)
        fields = {"title": order.title, "archived": order.archived, "tools_off": tools_off}
        changed = {name: value for name, value in fields.items() if value is not None}
        if changed:
            Sessions.update(changed).where(Sessions.id == order.session_id).execute(self._rows.database)
        if order.title is not None:
            return Written(
                self._rows.add(order, None, [Row("title_set", {"title": order.title})]), order.title
            )
        return Written(self._rows.seq(order.session_id), self._rows.title(order.session_id))

    def delete(self, order: DeleteSession) -> Verdict:
        """The session and all that belongs to it go."""
        turns: Any = Turns
        query = turns.select(turns.id).where(turns.session_id == order.session_id)
        mine = [row[0] for row in query.tuples().execute(self._rows.database)]
        session: Any = Sessions
        if not session.delete().where(session.id == order.session_id).execute(self._rows.database):
            return Refused("not_found", f"no session {order.session_id}")
        for table in _OF_SESSION:
            table.delete().where(table.session_id == order.session_id).execute(self._rows.database)
        for table in _OF_TURN:
            table.delete().where(table.turn_id.in_(mine)).execute(self._rows.database)
        self._rows.forget(order.session_id)
        return Written()

    def revoke(self, order: RevokeGrant) -> Verdict:
        """The grant goes."""
        grants: Any = Grants
        gone = grants.delete().where(grants.id == order.grant_id).execute(self._rows.database)
        return Written() if gone else Refused("not_found", f"no grant {order.grant_id}")
