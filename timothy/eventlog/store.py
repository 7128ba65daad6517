"""The single writer: orders in, rows in one transaction, a verdict for each order out."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import peewee

from timothy.database import Attempts, PendingStates, SessionEvents, ToolStarts
from timothy.eventlog.records import (
    AnyOrder,
    AppendRows,
    BeginTurn,
    ChangeSettings,
    CopySession,
    CreateSession,
    DeleteSession,
    EndTurn,
    ImportSession,
    Refused,
    RevokeGrant,
    UpdateSession,
    Verdict,
    Written,
)
from timothy.eventlog.rows import Rows, execute
from timothy.eventlog.session_orders import SessionOrders
from timothy.eventlog.settings import change
from timothy.eventlog.turn_orders import TurnOrders
from timothy.moment import stamp

STORAGE_FAULTS = (peewee.OperationalError, OSError)
_PROBE = "REPLACE INTO storage_probe (id, written_at) VALUES (1, ?)"


class Writer:
    """Commits batches of orders. Used by one native thread at a time; `database` is its own connection."""

    def __init__(self, database: peewee.SqliteDatabase) -> None:
        self._database = database
        self._rows = Rows(database)
        sessions, turns = SessionOrders(self._rows), TurnOrders(self._rows)
        self._work: dict[type[Any], Callable[[Any], Verdict]] = {
            CreateSession: sessions.create,
            CopySession: sessions.copy,
            ImportSession: sessions.bring_in,
            UpdateSession: sessions.update,
            DeleteSession: sessions.delete,
            RevokeGrant: sessions.revoke,
            ChangeSettings: partial(change, database),
            BeginTurn: turns.begin,
            AppendRows: turns.append,
            EndTurn: turns.end,
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
            self._rows.forget_all()
            raise

    def close(self) -> None:
        """Fold the WAL into the file and close the connection, also when the folding fails."""
        try:
            execute(self._database, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._database.close()

    def _guarded(self, order: AnyOrder) -> Verdict:
        try:
            with self._database.savepoint():
                return self._work[type(order)](order)
        except STORAGE_FAULTS:
            raise
        except Exception as error:  # noqa: BLE001  one bad order must not take its neighbours with it
            self._rows.forget(order.session_id)
            return self._explain(order, error)

    def _explain(self, order: AnyOrder, error: Exception) -> Verdict:
        if isinstance(error, peewee.IntegrityError) and self._is_repeat(order):
            return Written(self._rows.seq(order.session_id), self._rows.title(order.session_id))
        return Refused("append_refused", f"{type(error).__name__}: {error}")

    def _is_repeat(self, order: AnyOrder) -> bool:
        """Whether what the order asks for stands in the database, since it was carried out before."""
        exists = self._rows.exists
        if isinstance(order, AppendRows) and order.piece is not None:
            same = (PendingStates.turn_id == order.turn_id) & (PendingStates.number == order.piece.number)
            return exists(PendingStates.select().where(same))
        if isinstance(order, AppendRows) and order.tool_start is not None:
            started = (ToolStarts.turn_id == order.turn_id) & (ToolStarts.call_id == order.tool_start.call_id)
            return exists(ToolStarts.select().where(started))
        rows = SessionEvents.select().where(SessionEvents.append_id == order.append_id)
        attempts = Attempts.select().where(Attempts.append_id == order.append_id)
        return exists(rows) or exists(attempts)
