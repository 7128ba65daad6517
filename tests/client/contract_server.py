"""A server that says what a test told it to, byte for byte, and breaks the line where it was told to."""

import json
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from timothy.events import Event, frame

SESSION = "7f3c5f2e-5a43-4b6e-9a3a-2f4a3a6f0a11"
TURN = "0b9f3c55-7c1e-4a53-8a3e-1f0a5b6c7d21"
OTHER_TURN = "5d2b1c77-93aa-4a0e-b7c0-6a1e2f3b4c55"
STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform"}


class Reset:
    """In place of a chunk: the connection is reset here."""


class Held:
    """In place of a chunk: nothing more is said until the test lets go, or the client leaves."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.let_go = threading.Event()


@dataclass(frozen=True)
class Answer:
    """One answer: `chunks` go out one by one; without `whole`, the line ends before the last chunk's mark."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: tuple[bytes | Reset | Held, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Asked:
    """What the client sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


def as_json(value: Any, status: int = 200) -> Answer:
    """An answer in JSON."""
    return Answer(status, {"Content-Type": "application/json"}, (json.dumps(value).encode(),))


def refused(status: int, code: str, message: str = "no", **details: Any) -> Answer:
    """An answer that says no."""
    return as_json({"error": code, "message": message, **details}, status)


def streamed(*chunks: bytes | Reset | Held, whole: bool = True, turn: str = TURN, **headers: str) -> Answer:
    """An event stream of these bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(200, {**STREAM, "X-Session-Id": SESSION, "X-Turn-Id": turn, **named}, chunks, whole)


def frames(*events: Event, start: int = 1, turn: str = TURN) -> list[bytes]:
    """The events as a server numbers them, from `start` on."""
    return [frame(event, turn, start + place) for place, event in enumerate(events)]


class ContractServer(ThreadingHTTPServer):
    """Answers to `METHOD /path` are given out in the order in which the test laid them out."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[Asked] = []
        self._answers: dict[str, list[Answer | Reset]] = defaultdict(list)

    def on(self, call: str, *answers: Answer | Reset) -> None:
        """The next requests of `call`, such as "GET /v1/sessions", get these answers."""
        self._answers[call].extend(answers)

    def next_answer(self, call: str) -> Answer | Reset:
        """The answer for one request; a call that the test did not expect is told so."""
        answers = self._answers[call]
        return answers.pop(0) if answers else refused(500, "unexpected", f"no answer was laid out for {call}")

    def asks(self, call: str) -> list[Asked]:
        """What was asked so far of one route."""
        return [asked for asked in self.asked if f"{asked.method} {asked.path}" == call]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ContractServer

    def log_message(self, format: str, *args: Any) -> None:
        """A test's server is silent."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_DELETE = do_GET

    def _serve(self) -> None:
        self.close_connection = True
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(
            self.command,
            url.path,
            dict(parse_qsl(url.query)),
            dict(self.headers),
            json.loads(body) if body else None,
        )
        self.server.asked.append(asked)
        answer = self.server.next_answer(f"{self.command} {url.path}")
        if isinstance(answer, Reset):
            self._reset()
        else:
            self._say(answer)

    def _say(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks:
            if isinstance(chunk, Reset):
                return self._reset()
            if isinstance(chunk, Held):
                chunk.reached.set()
                chunk.let_go.wait(10)
            else:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if answer.whole:
            self.wfile.write(b"0\r\n\r\n")
        return None

    def _reset(self) -> None:
        # Lingering for no time at all makes the kernel send RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.rfile.close()
        self.connection.close()
        self.close_connection = True


@contextmanager
def serving() -> Iterator[ContractServer]:
    """A server that runs while the block does."""
    with ContractServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
