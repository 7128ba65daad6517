"""The provider of the benchmark: raw sockets that speak Chat Completions as cheaply as can be.

As a process: `bench_source.py` prints its port and serves until it is killed. The model's name is the order:
`flood-N` sends N tokens as fast as they are taken, `paced-R-N` sends N tokens at R a second, each with the
time of its sending. Every token is a chunk of its own (RFC 9112, section 7.1) with one event, as llama.cpp
sends it.
"""

import heapq
import itertools
import re
import socket
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FRAME = (
    'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"%s"}}],"created":1764500000,'
    '"id":"chatcmpl-0123456789abcdefghijklmnopqrstuv","model":"bench","system_fingerprint":"b1",'
    '"object":"chat.completion.chunk"}\n\n'
)
LAST = (
    'data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1764500000,"id":"chatcmpl-0",'
    '"model":"bench","object":"chat.completion.chunk"}\n\ndata: [DONE]\n\n'
)
BLOCK = 500
ORDER = re.compile(rb'"model": ?"(?:flood-(\d+)|paced-(\d+)-(\d+))"')


def chunk(text: str) -> bytes:
    """One chunk of a chunked body."""
    data = text.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


END = chunk(LAST) + b"0\r\n\r\n"
FLOOD = chunk(FRAME % "~tok ")


class Pacer:
    """One thread that sends all paced tokens, each when it is due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, socket.socket, float, int]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, connection: socket.socket, interval_s: float, tokens: int) -> None:
        """Send the first token now."""
        with self._changed:
            self._push(time.monotonic(), connection, interval_s, tokens)
            self._changed.notify()

    def _push(self, at: float, connection: socket.socket, interval_s: float, tokens: int) -> None:
        heapq.heappush(self._due, (at, next(self._order), connection, interval_s, tokens))

    def _run(self) -> None:
        while True:
            with self._changed:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                at, _, connection, interval_s, left = heapq.heappop(self._due)
                if left and _send(connection, chunk(FRAME % f"~{time.monotonic_ns()} ")):
                    self._push(at + interval_s, connection, interval_s, left - 1)
                    continue
            _end(connection)


def serve() -> None:
    """Print the port, then answer whoever comes."""
    pacer = Pacer()
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(connection, pacer), daemon=True).start()


def _answer(connection: socket.socket, pacer: Pacer) -> None:
    order = _order(connection)
    if order is None or not _send(connection, HEAD):
        connection.close()
    elif order[1] is not None:
        flood(connection, int(order[1]))
    else:
        pacer.add(connection, 1 / int(order[2]), int(order[3]))


def _order(connection: socket.socket) -> "re.Match[bytes] | None":
    """What the request asks for; None when its sender went away."""
    request = b""
    while (found := ORDER.search(request)) is None:
        data = connection.recv(65536)
        if not data:
            return None
        request += data
    return found


def flood(connection: socket.socket, tokens: int) -> None:
    """All the tokens, in writes of many."""
    block = FLOOD * BLOCK
    while tokens >= BLOCK and _send(connection, block):
        tokens -= BLOCK
    if tokens < BLOCK:
        _send(connection, FLOOD * tokens)
        _end(connection)
    connection.close()


def _send(connection: socket.socket, data: bytes) -> bool:
    """False when the reader went away."""
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def _end(connection: socket.socket) -> None:
    _send(connection, END)
    connection.close()


if __name__ == "__main__":
    serve()
