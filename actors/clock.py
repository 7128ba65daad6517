"""One heap of deadlines for the whole process: a thread per timer would be a thread per turn."""

import heapq
import itertools
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

from pykka._actor import ActorInbox
from pykka._envelope import Envelope

from actors.base import Inbox, Target, deliver
from actors.door import Door, Permanent
from actors.messages import Remind, Tick


class Deadlines:
    """A heap of reminders; it outlives the actor that serves it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Target, Any]] = []
        self._order = itertools.count()

    def add(self, reminder: Remind) -> None:
        """Keep the reminder until it is due."""
        heapq.heappush(self._heap, (reminder.at, next(self._order), reminder.target, reminder.message))

    def wait(self) -> float | None:
        """Seconds until the next one is due (0 when it is), None when there is none."""
        return max(0.0, self._heap[0][0] - self.now()) if self._heap else None

    def due(self) -> Iterator[tuple[Target, Any]]:
        """Take out what is due now, one by one, the oldest first: what is not taken yet stays."""
        while self._heap and self._heap[0][0] <= self.now():
            _, _, target, message = heapq.heappop(self._heap)
            yield target, message


class _TimedInbox(Inbox):
    """An inbox whose `get` gives a Tick when the next deadline comes before the next message."""

    def __init__(self) -> None:
        super().__init__()
        self.wait: Callable[[], float | None] = lambda: None

    def get(self) -> Envelope[Any]:
        wait = self.wait()
        if wait is None:
            return self._queue.get()
        try:
            return self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait()
        except queue.Empty:
            return Envelope(Tick())


class ClockActor(Permanent):
    """Tells each target its message when its time has come."""

    def __init__(self, door: Door, deadlines: Deadlines) -> None:
        super().__init__(door)
        self._deadlines = deadlines
        inbox: Any = self.actor_inbox
        inbox.wait = deadlines.wait

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return _TimedInbox()

    def on_receive(self, message: Remind | Tick) -> None:
        match message:
            case Remind():
                self._deadlines.add(message)
            case Tick():
                for target, reminder in self._deadlines.due():
                    deliver(target, reminder)
