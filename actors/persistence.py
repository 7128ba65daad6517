"""The single writer of the log: group commit in a native thread, patient with a storage that fails."""

import logging
import time
from collections.abc import Callable, Sequence

from actors.base import Target, deliver
from actors.door import Door, Permanent
from actors.messages import Flush, Remind, StorageRetrying, Write, Wrote
from actors.native import Native
from timothy.eventlog.records import AnyOrder, Refused, Verdict
from timothy.eventlog.store import STORAGE_FAULTS

logger = logging.getLogger(__name__)

BATCH = 400
RETRY_S = 0.25


class Backlog:
    """What is told to the writer and not yet durable; outlives the actor. `fault` says why saving fails."""

    def __init__(self) -> None:
        self.pending: list[Write] = []
        self.fault: str | None = None
        self.flushing = False
        self._warned: set[str] = set()

    def warn(self, write: Write, reason: str) -> None:
        """Tell the order's turn of the outage, once: by the first of its orders that reaches someone."""
        turn_id = getattr(write.order, "turn_id", None)
        if turn_id is not None and turn_id not in self._warned:
            news = StorageRetrying(write.order.session_id, turn_id, reason)
            if deliver(write.answer_to, news):
                self._warned.add(turn_id)

    def recovered(self) -> None:
        """The storage works again."""
        if self.fault is not None:
            logger.warning("the storage works again")
        self.fault = None
        self._warned.clear()


class PersistenceActor(Permanent):
    """Batches what piles up while the last batch was being written; answers when it is durable."""

    def __init__(
        self,
        door: Door,
        commit: Callable[[Sequence[AnyOrder]], list[Verdict]],
        native: Native,
        clock: Target,
        backlog: Backlog,
    ) -> None:
        super().__init__(door)
        self._commit = commit
        self._native = native
        self._clock = clock
        self._backlog = backlog
        backlog.flushing = False
        if backlog.pending:
            self._flush_soon()

    def on_receive(self, message: Write | Flush) -> None:
        match message:
            case Write():
                self._backlog.pending.append(message)
                self._flush_soon()
            case Flush():
                self._flush()

    def cleaned_up(self, cause: str | None) -> None:
        super().cleaned_up(cause)
        if cause is None:
            self._flush_the_rest()

    def _flush_the_rest(self) -> None:
        """What was told before the order to stop is written, too, as long as the storage works."""
        while self._backlog.pending and self._backlog.fault is None:
            self._flush()

    def _flush_soon(self) -> None:
        if not self._backlog.flushing:
            self._backlog.flushing = True
            deliver(self.actor_ref, Flush())

    def _flush(self) -> None:
        self._refuse_expired()
        batch = self._backlog.pending[:BATCH]
        if not batch and self._backlog.fault is None:
            self._backlog.flushing = False
            return
        try:  # an empty batch is a probe: does the storage work again?
            verdicts = self._native(self._commit, [write.order for write in batch])
        except STORAGE_FAULTS as error:
            self._wait_for_storage(str(_first(error)))
            return
        self._backlog.recovered()
        del self._backlog.pending[: len(batch)]
        for write, verdict in zip(batch, verdicts, strict=True):
            _answer(write, verdict)
        self._backlog.flushing = False
        if self._backlog.pending:
            self._flush_soon()

    def _wait_for_storage(self, reason: str) -> None:
        """Keep everything, tell the turns, try again soon: a message of the clock, not a sleep."""
        if self._backlog.fault is None:
            logger.error("the storage fails: %s", reason)
        self._backlog.fault = reason
        for write in self._backlog.pending:
            self._backlog.warn(write, reason)
        self._clock.tell(Remind(time.monotonic() + RETRY_S, self._door, Flush()))

    def _refuse_expired(self) -> None:
        """Only the writer decides that an order came too late."""
        now = time.monotonic()
        expired = [w for w in self._backlog.pending if w.deadline is not None and w.deadline < now]
        if not expired:
            return
        gone = set(map(id, expired))
        self._backlog.pending[:] = [w for w in self._backlog.pending if id(w) not in gone]
        reason = self._backlog.fault or "the storage is too slow"
        for write in expired:
            _answer(write, Refused("storage_unavailable", f"this could not be saved in time: {reason}"))


def _first(error: BaseException) -> BaseException:
    """What went wrong first: the rollback after a full disk fails, too, and says nothing of the disk."""
    first, before = error, error.__context__
    while before is not None:
        first = before if isinstance(before, STORAGE_FAULTS) else first
        before = before.__context__
    return first


def _answer(write: Write, verdict: Verdict) -> None:
    turn_id = getattr(write.order, "turn_id", None)
    deliver(write.answer_to, Wrote(write.order.session_id, turn_id, write.token, verdict))
