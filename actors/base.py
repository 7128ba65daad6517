"""What every actor here shares: a cheap inbox, a daemon thread, one clean-up for both ways to die."""

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, cast

import pykka
from pykka._actor import ActorInbox
from pykka._envelope import Envelope

from timothy.errors import StorageUnavailable

PATIENCE_S = 30.0  # far more than any deadline that is given to the writer


class Target(Protocol):
    """Anything that can be told something: an actor's ref, a door, a future's front."""

    def tell(self, message: Any, /) -> None: ...


class Inbox:
    """An inbox that can be left to an heir: a message that meets a dying actor is not lost."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Envelope[Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._heir: Callable[[Envelope[Any]], object] | None = None

    def put(self, envelope: Envelope[Any], /) -> None:
        with self._lock:
            (self._heir or self._queue.put)(envelope)

    def get(self) -> Envelope[Any]:
        return self._queue.get()

    def empty(self) -> bool:
        return self._queue.empty()

    def bequeath(self, heir: Callable[[Envelope[Any]], object]) -> None:
        """What was not read, and all that still comes, goes to `heir`, in order."""
        with self._lock:
            self._heir = heir
            while not self._queue.empty():
                heir(self._queue.get())


class BaseActor(pykka.ThreadingActor):
    """A thread-backed actor. `cleaned_up` runs once at its end, `cause` is None for an orderly one."""

    use_daemon_thread = True  # non-daemon threads cost O(n) per start; system.stop() ends actors in order

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return cast(ActorInbox, queue.SimpleQueue())

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cleaned_up(f"{type(exception_value).__name__}: {exception_value}")

    def on_stop(self) -> None:
        self.cleaned_up(None)

    def cleaned_up(self, cause: str | None) -> None:
        """Tell whoever must know that this actor is gone."""


def deliver(target: Target | None, message: Any) -> bool:
    """Tell a target that may be gone; False when it is."""
    if target is None:
        return False
    try:
        target.tell(message)
    except pykka.ActorDeadError:
        return False
    return True


class Answer:
    """A future that can be told its value once, by an actor: what a web handler waits for."""

    def __init__(self) -> None:
        self._future: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()

    def tell(self, message: Any) -> None:
        """Give the answer; a second one is ignored."""
        try:
            self._future.set(message)
        except queue.Full:
            return  # the first answer stands

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the answer. Raises pykka.Timeout after `timeout` seconds."""
        return self._future.get(timeout=timeout)

    def verdict(self, patience_s: float = PATIENCE_S) -> Any:
        """Wait for what the writer decides, which is its own to time.

        Raises StorageUnavailable when it does not even decide: a disk that hangs inside a write, a defect.
        """
        try:
            return self.get(patience_s)
        except pykka.Timeout as error:
            raise StorageUnavailable(
                f"the log gave no answer for {patience_s:g} s; it is not known whether this was saved:"
                " look before you send it again"
            ) from error
