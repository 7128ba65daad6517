"""The buffer of a running turn's frames: one writer appends, any number of viewers read from a cursor."""

import threading
import zlib
from collections.abc import Callable
from typing import Literal

from timothy.events import Event, decode, frame
from timothy.moment import stamp

SEGMENT = 512
TurnState = Literal["running", "waiting", "stopping", "ended"]
Wake = Callable[[], None]


class Replay:
    """Numbered frames of one turn, encoded once. Sealed segments are kept compressed.

    `append` and `close` belong to one writer at a time; `read` and `register` to anyone. Reading takes no
    lock: a segment is one object, a list that only grows or the bytes that replace it.
    """

    def __init__(self, session_id: str, turn_id: str, started_at: str | None = None) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.started_at = started_at or stamp()
        self.state: TurnState = "running"
        self.last_seq = 0
        self.closed = False
        self._tail: list[bytes] = []
        self._segments: list[list[bytes] | bytes] = [self._tail]
        self._wakes: tuple[Wake, ...] = ()
        self._lock = threading.Lock()

    def append(self, event: Event) -> int:
        """Number the event, keep its frame, wake the viewers; returns its seq."""
        seq = self.last_seq + 1
        if len(self._tail) == SEGMENT:
            self._seal()
        self._tail.append(frame(event, self.turn_id, seq))
        self.last_seq = seq  # after the frame: a reader goes by it
        for wake in self._wakes:
            wake()
        return seq

    def close(self) -> None:
        """Nothing follows; viewers that read to the end are at the end."""
        self.state = "ended"
        self.closed = True
        for wake in self._wakes:
            wake()

    def read(self, cursor: int, limit: int = 16384) -> tuple[bytes, int]:
        """The frames after `cursor`, about `limit` bytes but at least one; and the cursor after them."""
        if cursor >= self.last_seq:
            return b"", cursor
        frames = self._frames(cursor)
        if len(frames) == 1:
            return frames[0], cursor + 1
        taken = [frames[0]]
        size = len(frames[0])
        for data in frames[1:]:
            size += len(data)
            if size > limit:
                break
            taken.append(data)
        return b"".join(taken), cursor + len(taken)

    def register(self, wake: Wake) -> None:
        """Call `wake` whenever frames are added and at the close; it must return at once and never raise."""
        with self._lock:
            self._wakes = (*self._wakes, wake)

    @property
    def watched(self) -> bool:
        """True while somebody follows."""
        return bool(self._wakes)

    def unregister(self, wake: Wake) -> None:
        """Stop calling `wake`."""
        with self._lock:
            self._wakes = tuple(other for other in self._wakes if other != wake)

    def events(self) -> list[Event]:
        """All events so far, decoded from their frames."""
        cursor, found = 0, list[Event]()
        while cursor < self.last_seq:
            data, cursor = self.read(cursor, limit=1 << 20)
            found.extend(decode(part.split(b"\ndata: ", 1)[1]) for part in data.split(b"\n\n") if part)
        return found

    def _seal(self) -> None:
        self._segments[-1] = zlib.compress(b"".join(self._tail), 1)
        self._tail = []
        self._segments.append(self._tail)

    def _frames(self, cursor: int) -> list[bytes]:
        """The frames after `cursor` that lie in one segment."""
        number, offset = divmod(cursor, SEGMENT)
        segment = self._segments[number]
        if isinstance(segment, list):
            return segment[offset:]
        parts = zlib.decompress(segment).split(b"\n\n")[offset:SEGMENT]
        return [part + b"\n\n" for part in parts]
