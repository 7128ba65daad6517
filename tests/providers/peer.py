"""A provider made of raw bytes, and what tests of drivers compare."""

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from timothy.config import ProviderSettings
from timothy.conversation import Message, ModelRequest
from timothy.events import Done, Error, Event, Incomplete, ReasoningDelta, TextDelta, ToolCall, Usage
from timothy.providers.base import load

DATA = Path(__file__).parent.parent / "data" / "wire"
QUIRKS = json.loads((DATA / "quirks.json").read_text())["cases"]
ASKED = ModelRequest((Message("user", "hi"),), system="Be brief.", request_id="request-1")
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
HOLD = "hold"
RESET = "reset"
Piece = bytes | float | str | threading.Event


def text_chunk(text: str) -> bytes:
    """One frame of the Chat Completions wire."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def settings(wire: str, base_url: str = "http://127.0.0.1:9/v1", **fields: Any) -> ProviderSettings:
    return ProviderSettings(name="peer", driver=wire, base_url=base_url, model="m", **fields)  # type: ignore[arg-type]


def driver(wire: str, base_url: str = "http://127.0.0.1:9/v1", **fields: Any) -> Any:
    return load(settings(wire, base_url, **fields), Path("/nowhere"))


def merged(events: Iterable[Event]) -> list[Event]:
    """`events` with adjacent text joined, and ids of calls that the driver made up numbered in order."""
    names: dict[str, str] = {}
    out: list[Event] = []
    for event in events:
        if hasattr(event, "call_id"):
            call_id = names.setdefault(event.call_id, f"call {len(names)}")
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            event = type(event)(**{**fields, "call_id": call_id})
        if out and isinstance(event, TextDelta | ReasoningDelta) and type(out[-1]) is type(event):
            out[-1] = type(event)(out[-1].text + event.text)  # type: ignore[attr-defined]
        else:
            out.append(event)
    return out


def summed(events: Iterable[Event]) -> dict[str, Any]:
    """What came of an answer, in the words of quirks.json. Fails unless its last event alone ends it."""
    events = list(events)
    ends = [isinstance(event, Done | Error) for event in events]
    assert ends.count(True) == 1 and ends[-1], events
    last = events[-1]
    usage = next((event for event in events if isinstance(event, Usage)), None)
    return {
        "text": "".join(event.text for event in events if isinstance(event, TextDelta)),
        "reasoning": "".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        "calls": [[event.name, event.input] for event in events if isinstance(event, ToolCall)],
        "usage": usage and {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "incomplete": next((event.reason for event in events if isinstance(event, Incomplete)), None),
        "terminal": "done" if isinstance(last, Done) else "error",
        "code": last.code if isinstance(last, Error) else None,
    }


class Peer:
    """Answers one connection after the other, each with pieces: bytes, seconds to wait, an event to wait
    for, HOLD until the client closes, or RESET. Without HOLD it closes at the end of the pieces."""

    def __init__(self, *answers: list[Piece], tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self._answers = answers
        self.heads: list[str] = []
        self.bodies: list[Any] = []
        self.asked = threading.Event()
        self.left = threading.Event()
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def url(self, wire: str = "openai") -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}" + ("/v1" if wire == "openai" else "")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            with contextlib.suppress(OSError), self._wrapped(connection) as client:
                client.settimeout(10)
                self._read(client)
                self.asked.set()
                self._play(client, answer)
            self.over.set()

    def _wrapped(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._tls else connection

    def _read(self, client: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._some(client)
        head, _, body = data.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        while len(body) < int(lines["Content-Length"]):
            body += self._some(client)
        self.heads.append(head.decode())
        self.bodies.append(json.loads(body))

    def _some(self, client: socket.socket) -> bytes:
        data = client.recv(65536)
        if not data:
            raise ConnectionError("the client left")
        return data

    def _play(self, client: socket.socket, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, bytes):
                client.sendall(piece)
            elif isinstance(piece, threading.Event):
                assert piece.wait(10)
            elif isinstance(piece, float):
                time.sleep(piece)
            elif piece == RESET:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self._hold(client)

    def _hold(self, client: socket.socket) -> None:
        try:
            while client.recv(1024):
                pass
        finally:
            self.left.set()
