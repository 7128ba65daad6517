"""An event stream read from a raw socket: every byte is accounted for, and a wrong one is an error."""

import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

_FRAME = re.compile(rb"id: ([0-9a-f-]{36}):(\d+)\n\Z")
EVIDENCE = ("assistant_turn", "pending_state", "turn_failed")
TERMINALS = ("done", "error")


@dataclass(frozen=True)
class Frame:
    """One frame as it came; `at` is monotonic, in seconds."""

    event: dict[str, Any]
    raw: bytes
    at: float

    @property
    def type(self) -> str:
        return str(self.event["type"])


class Broken(AssertionError):
    """The stream broke a rule of its format."""


class Stream:
    """A response read as it comes. For an event stream, `frames` and `comments` grow as it is read."""

    opened: ClassVar[list["Stream"]] = []

    def __init__(
        self,
        url: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None = None,
        *,
        receive_buffer: int = 0,
        timeout: float = 10,
    ) -> None:
        parts = urlsplit(url)
        self.connection = socket.socket()
        self.opened.append(self)
        if receive_buffer:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.connection.settimeout(timeout)
        self.connection.connect((parts.hostname, parts.port))
        self.frames: list[Frame] = []
        self.comments: list[tuple[float, bytes]] = []
        self.closed_cleanly = False
        self._buffer = b""
        self._body = b""
        self._send(parts.netloc, method, path, headers, body)
        self.status, self.headers = self._head()
        self._chunked = self.headers.get("transfer-encoding") == "chunked"
        self._left = int(self.headers.get("content-length", 0))

    def _send(self, host: str, method: str, path: str, headers: dict[str, str], body: bytes | None) -> None:
        lines = {"Host": host, **headers}
        if body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return int(status.split()[1]), {name.lower(): value.strip() for name, value in pairs}

    def _fill(self) -> None:
        data = self.connection.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self._buffer += data

    def json(self) -> Any:
        """The whole body, for a response that is no stream."""
        length = int(self.headers["content-length"])
        while len(self._buffer) < length:
            self._fill()
        self.close()
        return json.loads(self._buffer[:length])

    def lines(self) -> Iterator[bytes]:
        """The body's lines, with their line end, until the body ends."""
        while True:
            while b"\n" in self._body:
                line, _, self._body = self._body.partition(b"\n")
                yield line + b"\n"
            if not self._more():
                if self._body:
                    raise Broken(f"the body ends within a line: {self._body!r}")
                return

    def _more(self) -> bool:
        """Take the next chunk of the body; False at its end."""
        if not self._chunked:
            return self._rest_of_length()
        while b"\r\n" not in self._buffer:
            self._fill()
        size, _, self._buffer = self._buffer.partition(b"\r\n")
        length = int(size, 16)
        while len(self._buffer) < length + 2:
            self._fill()
        self._body += self._buffer[:length]
        self._buffer = self._buffer[length + 2 :]
        self.closed_cleanly = length == 0
        return length > 0

    def _rest_of_length(self) -> bool:
        """The same for a body whose length was declared."""
        if self._left == 0:
            self.closed_cleanly = True
            return False
        if not self._buffer:
            self._fill()
        taken, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
        self._left -= len(taken)
        self._body += taken
        return True

    def __iter__(self) -> Iterator[Frame]:
        """Frames as they come; comments are kept aside. Raises Broken, EOFError, TimeoutError."""
        lines = self.lines()
        for line in lines:
            if line.startswith(b":"):
                self.comments.append((time.monotonic(), line))
                continue
            named = _FRAME.match(line)
            data = next(lines, b"")
            blank = next(lines, b"")
            if named is None or not data.startswith(b"data: ") or blank != b"\n":
                raise Broken(f"no frame: {line!r} {data!r} {blank!r}")
            frame = Frame(json.loads(data[6:]), line + data + blank, time.monotonic())
            if (frame.event["turn_id"], frame.event["seq"]) != (named[1].decode(), int(named[2])):
                raise Broken(f"the frame's id is not its event's: {frame.raw!r}")
            self.frames.append(frame)
            yield frame

    def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Read on to the next event of this type and these fields. Raises AssertionError at the end."""
        for frame in self:
            if frame.type == kind and all(frame.event.get(name) == value for name, value in fields.items()):
                return frame.event
        raise AssertionError(f"no {kind} {fields} in {[frame.event for frame in self.frames]}")

    def rest(self) -> "Stream":
        """Read to the end."""
        for _ in self:
            pass
        self.close()
        return self

    def close(self) -> None:
        """Leave, as a closed tab does."""
        self.connection.close()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What has been read so far."""
        return [frame.event for frame in self.frames]

    @property
    def kinds(self) -> list[str]:
        """The types of what has been read so far."""
        return [frame.type for frame in self.frames]

    @property
    def turn_id(self) -> str:
        return self.headers["x-turn-id"]

    @property
    def text(self) -> str:
        """The answer as a viewer sees it."""
        return "".join(event["text"] for event in self.events if event["type"] == "text_delta")

    @property
    def terminal(self) -> dict[str, Any]:
        """The one terminal event, which only `meta` follows. Raises Broken."""
        self._check_order()
        found = [event for event in self.events if event["type"] in TERMINALS]
        if len(found) != 1 or self.kinds[-2:] != [found[0]["type"], "meta"]:
            raise Broken(f"a stream must end with one terminal and meta: {self.events[-5:]}")
        return found[0]

    @property
    def end(self) -> str:
        """`done`, or the error's code."""
        terminal = self.terminal
        return "done" if terminal["type"] == "done" else str(terminal["code"])

    @property
    def meta(self) -> dict[str, Any]:
        """The last frame."""
        assert self.terminal
        return self.frames[-1].event

    def _check_order(self) -> None:
        seqs = [event["seq"] for event in self.events]
        if seqs != list(range(seqs[0], seqs[0] + len(seqs))):
            raise Broken(f"seq has a gap: {seqs}")
        if {event["turn_id"] for event in self.events} != {self.turn_id}:
            raise Broken("a frame of another turn")
        if ("turn_started" in self.kinds) != (seqs[0] == 1) or self.kinds[1:].count("turn_started"):
            raise Broken(f"turn_started is seq 1 and only that: {self.kinds}")
