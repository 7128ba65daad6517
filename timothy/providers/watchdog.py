"""One watch over the silence of all providers, in one thread for the process.

A socket's own timeout is set anew for every read, and under gevent that is a timer for every token.
"""

import threading
import time
from typing import Protocol

TICK_S = 0.2  # how late a deadline that was brought forward is noticed


class Watched(Protocol):
    """What may be silent for too long. `deadline` is monotonic seconds, and moves by a plain write."""

    deadline: float

    def overdue(self) -> None:
        """The deadline has passed: end whatever waits. Must return at once and never raise."""
        ...


class Watchdog:
    """Tells everything watched, once, when its deadline has passed; its thread starts at need."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._next = float("inf")

    def watch(self, watched: Watched) -> None:
        """Begin to watch; a second call changes nothing."""
        with self._changed:
            self._watched.add(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()
            elif watched.deadline < self._next:
                self._changed.notify()

    def leave(self, watched: Watched) -> None:
        """Stop watching: `overdue` is not running now, and will not be called any more."""
        with self._changed:
            self._watched.discard(watched)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for watched in [one for one in self._watched if one.deadline <= now]:
                    self._watched.remove(watched)
                    watched.overdue()
                earliest = min((one.deadline for one in self._watched), default=float("inf"))
                self._next = min(earliest, now + TICK_S) if self._watched else earliest
                self._changed.wait(max(0.0, self._next - now) if self._watched else None)


watchdog = Watchdog()
