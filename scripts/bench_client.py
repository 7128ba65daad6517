"""The client of the benchmark: many event streams in one loop, each token counted, or timed by its stamp."""

import re
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

STAMP = re.compile(rb"~(\d+) ")
READ_BYTES = 1 << 18


@dataclass(frozen=True)
class Ask:
    """A request for one stream."""

    port: int
    path: str
    body: bytes
    token: str = ""

    def raw(self) -> bytes:
        """The request as it goes over the wire; the server closes the connection at the stream's end."""
        return head(self.port, "POST", self.path, self.token, self.body, "close") + self.body


@dataclass(slots=True)
class Seen:
    """One stream as its client saw it. Times in seconds, monotonic; `latencies` of each stamped token."""

    connection: socket.socket
    stamped: bool
    sent_at: float
    tokens: int = 0
    writes: int = 0
    first_at: float = 0.0
    ended_at: float = 0.0
    latencies: list[float] = field(default_factory=list)
    start: bytes = b""
    _rest: bytes = b""

    def take(self, data: bytes) -> None:
        """What one read gave."""
        now = time.monotonic_ns()
        if not self.start:
            self.start = data[:100]
        self.writes += data.count(b"\r\n") // 2  # of the chunked coding: events hold LF alone
        if self.stamped:
            self._time(self._rest + data, now)
        else:
            self.tokens += data.count(b"~")
        if self.tokens and not self.first_at:
            self.first_at = now / 1e9

    def _time(self, data: bytes, now: int) -> None:
        stamps = STAMP.findall(data)
        self.latencies += [(now - int(stamp)) / 1e9 for stamp in stamps]
        self.tokens += len(stamps)
        begun = data.rfind(b"~")
        self._rest = data[begun:] if begun >= 0 and b" " not in data[begun:] else b""


def watch(asks: Sequence[Ask], *, stamped: bool, apart_s: float = 0.0) -> list[Seen]:
    """Begin the streams, `apart_s` apart; read all to their ends. Raises OSError after 60 s of silence."""
    selector = selectors.DefaultSelector()
    waiting = [(time.monotonic() + number * apart_s, ask) for number, ask in enumerate(asks)][::-1]
    seen: list[Seen] = []
    while waiting or selector.get_map():
        while waiting and waiting[-1][0] <= time.monotonic():
            seen.append(begin(waiting.pop()[1], stamped=stamped))
            selector.register(seen[-1].connection, selectors.EVENT_READ, seen[-1])
        ready = selector.select(max(0.0, waiting[-1][0] - time.monotonic()) if waiting else 60)
        if not ready and not waiting:
            raise TimeoutError("the streams fell silent for 60 s")
        for key, _ in ready:
            if not _read(key.data):
                selector.unregister(key.fileobj)
    return seen


def begin(ask: Ask, *, stamped: bool) -> Seen:
    """Connect and ask."""
    sent_at = time.monotonic()
    connection = socket.create_connection(("127.0.0.1", ask.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(ask.raw())
    return Seen(connection, stamped, sent_at)


def _read(seen: Seen) -> bool:
    data = seen.connection.recv(READ_BYTES)
    if data:
        seen.take(data)
        return True
    seen.ended_at = time.monotonic()
    seen.connection.close()
    return False


def call(port: int, method: str, path: str, token: str = "", body: bytes = b"") -> bytes:
    """One small request on a connection of its own; the whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head(port, method, path, token, body, "close") + body)
        answer = b""
        while data := connection.recv(65536):
            answer += data
    return answer


def head(port: int, method: str, path: str, token: str, body: bytes, keep: str) -> bytes:
    """The lines before a request's body."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Connection: {keep}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
