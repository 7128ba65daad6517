"""One subscriber to a turn: replay from a cursor, then follow, by the same path."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pykka

from actors.base import BaseActor, deliver
from actors.messages import Ping, Remind, Woken
from timothy.turn.replay import Replay

OPENING = b": this turn belongs to its session, not to this request\n"
PING = b": ping\n"
PIECE = 16384
BEHIND = 64
STALL_S = 5.0
WOKEN = Woken()


class ViewerActor(BaseActor):
    """Driven by its response's own greenlet: registered at the first `next`, unregistered by `close()`.

    `shut` ends the viewer's connection from outside, for one whose socket takes nothing.
    """

    def __init__(self, replay: Replay, cursor: int, viewers: "Viewers", shut: Callable[[], None]) -> None:
        super().__init__()
        self._replay = replay
        self._cursor = cursor
        self._viewers = viewers
        self._shut = shut
        self._woken = False
        self._opened = False
        self._closed = False
        self._cut = False
        self._rest: list[bytes] = []
        self.handed_at = self.commented_at = time.monotonic()
        self.taken = True

    def _start_actor_loop(self) -> None:
        """No thread: the greenlet that writes the response calls `__next__`."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.taken = True
        self.handed_at = time.monotonic()
        if not self._opened:
            self._open()
            return self._hand(OPENING)
        while True:
            if self._cut:
                raise StopIteration
            piece = self._next_piece()
            if piece:
                return self._hand(piece)
            if self._replay.closed and self._cursor >= self._replay.last_seq:
                raise StopIteration
            if isinstance(self.actor_inbox.get().message, Ping):
                self.commented_at = time.monotonic()
                return self._hand(PING)

    def close(self) -> None:
        """The response is over, for whatever reason; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._viewers.remove(self)
        self._replay.unregister(self.wake)
        self.actor_stopped.set()
        pykka.ActorRegistry.unregister(self.actor_ref)

    def wake(self) -> None:
        """The replay grew: one message, however often it grows before this viewer looks."""
        if not self._woken:
            self._woken = True
            deliver(self.actor_ref, WOKEN)

    def tick(self, now: float, heartbeat_s: float) -> None:
        """Send a heartbeat in time, events or not; cut a viewer loose that takes nothing and falls behind."""
        if self.taken:
            if now - self.commented_at >= heartbeat_s:
                deliver(self.actor_ref, Ping())
                self.commented_at = now
        elif now - self.handed_at >= STALL_S and self._replay.last_seq - self._cursor > BEHIND:
            self._cut = True
            self._shut()

    def _open(self) -> None:
        self._opened = True
        pykka.ActorRegistry.register(self.actor_ref)
        self._replay.register(self.wake)
        self._viewers.add(self)

    def _next_piece(self) -> bytes:
        if self._rest:
            return self._rest.pop(0)
        self._woken = False  # before the read: the other order loses the last wake
        data, self._cursor = self._replay.read(self._cursor, PIECE)
        if len(data) <= PIECE:
            return data
        self._rest = [data[at : at + PIECE] for at in range(PIECE, len(data), PIECE)]
        return data[:PIECE]

    def _hand(self, piece: bytes) -> bytes:
        self.taken = False
        self.handed_at = time.monotonic()
        return piece


class Viewers:
    """All viewers of all turns, and the one ticker that serves them: a target of the clock."""

    def __init__(self, heartbeat_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._silence_s = heartbeat_s * 0.75  # so that a heartbeat is never later than heartbeat_s
        self.interval_s = min(1.0, heartbeat_s / 8)
        self._now = now
        self._lock = threading.Lock()
        self._viewers: set[ViewerActor] = set()
        self.clock: Any = None

    def add(self, viewer: ViewerActor) -> None:
        """The viewer's stream has begun."""
        with self._lock:
            self._viewers.add(viewer)

    def remove(self, viewer: ViewerActor) -> None:
        """The viewer's stream is over."""
        with self._lock:
            self._viewers.discard(viewer)

    def __len__(self) -> int:
        return len(self._viewers)

    def start(self, clock: Any) -> None:
        """Be told by the clock from now on."""
        self.clock = clock
        self.clock.tell(Remind(self._now() + self.interval_s, self, None))

    def tell(self, _: Any) -> None:
        """The next reminder, and one tick for every viewer."""
        with self._lock:
            viewers = list(self._viewers)
        now = self._now()
        self.clock.tell(Remind(now + self.interval_s, self, None))
        for viewer in viewers:
            viewer.tick(now, self._silence_s)
