"""A fake provider: a real HTTP server that speaks OpenAI's streaming wire and misbehaves on order.

In a test (plain threads or gevent):

    with FakeProvider() as provider:
        provider.behave("m", tokens=3, hold=1)             # the model "m" sends one token, then waits
        ... stream from provider.base_url with model "m" ...
        provider.release("m")                              # every hold of "m" goes on
        assert provider.wait_ended("m").ended == "complete"

As a process: `python -m tests.fakes.provider --port 0` prints `listening on http://127.0.0.1:PORT/v1`.
Then `POST /control` (at the root, not under /v1) with `{"model": "m", "behaviours": [{...}, ...]}`,
`{"release": "m"}` or `{"clear": true}`, and `GET /control/log`.

A model's behaviours are used up one a request; the last one stays. A model that was never given any is read
as `PRESET?field=value&...`: `normal`, `slow?tokens=500`, `cut?tokens=2`, any name at all being `normal`.

Wire: OpenAI, "Chat completions, streaming" (chunks, usage chunk with empty choices, `[DONE]`); the shape of
errors and of the first chunk (`content: null`) as llama.cpp's server sends them.
"""

import argparse
import json
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLICE_S = 0.02  # how late a release can be noticed; a client that goes away is noticed at once


@dataclass(frozen=True)
class Behaviour:
    """What one answer does. All defaults together: five tokens, usage, `stop`, `[DONE]`, a clean end."""

    tokens: int = 5  # the text is "t0 t1 t2 ...", one piece a chunk
    text: str = ""  # instead: this text, a word a chunk; "{tool}" and "{user}" quote the last such message
    reasoning: int = 0  # so many pieces of reasoning_content before the text
    delay_s: float = 0.0  # before every piece
    # wait for release() before the headers ("headers"), after that many pieces (0: before the first), or
    # after the last one, before the finish ("end")
    hold: str | int | None = None
    keepalive_s: float = 0.0  # while waiting, a comment so often
    # how it ends: done | cut (clean end of the body, no terminal) | reset (RST in mid-chunk) | garbage (a
    # frame that is no JSON, then cut) | hang (never: until the client goes) | error (an error object)
    end: str = "done"
    status: int = 200  # another one: a plain response with `body` (or an error object of `message`)
    body: str = ""
    message: str = "the fake fails as ordered"
    error_code: int | str = 500  # in the error object
    retry_after: str = ""  # the header
    content_type: str = ""  # of a plain response; default application/json
    # tool calls instead of text, until the request ends with a tool's result: [{"name", "arguments"}, ...]
    tools: tuple[dict[str, Any], ...] = ()
    finish_reason: str = ""  # default: stop, or tool_calls
    usage: bool = True
    cached: int = 0
    chunked: bool = True  # False: no chunked coding, the end of the connection ends the body


PRESETS: dict[str, Behaviour] = {
    "normal": Behaviour(),
    "slow": Behaviour(tokens=100, delay_s=0.02),
    "hang": Behaviour(tokens=0, end="hang"),
    "hang-headers": Behaviour(hold="headers"),
    "empty": Behaviour(tokens=0),
    "length": Behaviour(finish_reason="length"),
    "cut": Behaviour(end="cut"),
    "reset": Behaviour(end="reset"),
    "garbage": Behaviour(end="garbage"),
    "error": Behaviour(end="error"),
    "bad-request": Behaviour(status=400, message="the fake cannot read that"),
    "unauthorized": Behaviour(status=401, message="the fake does not know that key"),
    "rate-limited": Behaviour(status=429, message="the fake is busy", retry_after="1"),
    "broken": Behaviour(status=500, message="the fake broke"),
    "overloaded": Behaviour(status=503, message="the fake has no capacity"),
    "tool": Behaviour(tools=({"name": "current_time", "arguments": {}},), text="the tool said {tool}"),
}


@dataclass
class Logged:
    """One request and what became of it. Times are `time.monotonic()`, the same clock in every process."""

    model: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    pieces: int = 0  # sent so far
    ended_at: float | None = None
    ended: str = (
        ""  # complete | client_closed | cut | reset | garbage | error | status | stopped (the fake's end)
    )
    done: threading.Event = field(default_factory=threading.Event, repr=False)

    def public(self) -> dict[str, Any]:
        """As JSON, for `GET /control/log`."""
        return {key.name: getattr(self, key.name) for key in fields(self) if key.name != "done"}


class ClientClosed(Exception):
    """The client went away while the answer was not done."""


class FakeProvider:
    """The server and its controls; a context manager. All methods may be called from any thread."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._orders: dict[str, list[Behaviour]] = {}
        self._releases: dict[str, threading.Event] = {}
        self.log: list[Logged] = []
        self.connections: set[socket.socket] = set()
        self.stopping = threading.Event()
        self._server = _Server((host, port), _Handler)
        self._server.fake = self
        self.port: int = self._server.server_address[1]
        self.base_url = f"http://{host}:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)

    def __enter__(self) -> "FakeProvider":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Break every connection and stop listening: what a killed provider looks like."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            open_connections = list(self.connections)
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def behave(self, model: str, *behaviours: Behaviour | str, **changes: Any) -> None:
        """Order what `model` does: one behaviour or preset a request, the last one for ever."""
        given = [PRESETS[each] if isinstance(each, str) else each for each in behaviours] or [Behaviour()]
        with self._lock:
            self._orders[model] = [replace(each, **changes) for each in given]
            self._releases[model] = threading.Event()

    def release(self, model: str) -> None:
        """Let every hold of `model` go on, now and later (until the next `behave`)."""
        self.gate(model).set()

    def clear(self) -> None:
        """Forget all orders and the log; running answers go on."""
        with self._lock:
            self._orders.clear()
            self._releases.clear()
            self.log.clear()

    def requests(self, model: str | None = None) -> list[Logged]:
        """The requests so far, oldest first."""
        with self._lock:
            return [entry for entry in self.log if model is None or entry.model == model]

    def wait_request(self, model: str, count: int = 1, timeout: float = 5) -> Logged:
        """The `count`-th request to `model`, as soon as it has come. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        with self._arrived:
            while True:
                entries = [entry for entry in self.log if entry.model == model]
                if len(entries) >= count:
                    return entries[count - 1]
                if not self._arrived.wait(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"{len(entries)} of {count} requests to {model!r} in {timeout} s")

    def wait_ended(self, model: str, count: int = 1, timeout: float = 5) -> Logged:
        """The `count`-th request to `model`, once its answer has ended, however. Raises TimeoutError."""
        entry = self.wait_request(model, count, timeout)
        if not entry.done.wait(timeout):
            raise TimeoutError(f"the answer of {model!r} has not ended in {timeout} s")
        return entry

    def gate(self, model: str) -> threading.Event:
        """What a hold of `model` waits for."""
        with self._lock:
            return self._releases.setdefault(model, threading.Event())

    def arrive(self, entry: Logged) -> Behaviour:
        """Log a request and take the behaviour that is next for its model."""
        with self._arrived:
            self.log.append(entry)
            self._arrived.notify_all()
            orders = self._orders.get(entry.model)
            if not orders:
                return parse(entry.model)
            return orders.pop(0) if len(orders) > 1 else orders[0]

    def control(self, order: dict[str, Any]) -> None:
        """What `POST /control` does."""
        if order.get("clear"):
            self.clear()
        if "release" in order:
            self.release(order["release"])
        if "model" in order:
            self.behave(order["model"], *(Behaviour(**each) for each in order["behaviours"]))


def parse(model: str) -> Behaviour:
    """The behaviour that a model's name spells: `PRESET?field=value&...`; an unknown preset is `normal`."""
    name, _, query = model.partition("?")
    changes: dict[str, Any] = {}
    for key, value in urllib.parse.parse_qsl(query):
        try:
            changes[key] = json.loads(value)
        except ValueError:
            changes[key] = value
    return replace(PRESETS.get(name, PRESETS["normal"]), **changes)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    fake: FakeProvider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away between two requests is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.fake.connections.add(self.connection)

    def finish(self) -> None:
        self.server.fake.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: the log that counts is `FakeProvider.log`."""

    def do_GET(self) -> None:
        if self.path == "/control/log":
            self._json(200, [entry.public() for entry in self.server.fake.requests()])
        elif self.path == "/v1/models":
            rows = [{"id": name, "object": "model", "owned_by": "fake"} for name in PRESETS]
            self._json(200, {"object": "list", "data": rows})
        else:
            self._json(404, {"error": {"message": f"no route {self.path}", "code": 404}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/control":
            self.server.fake.control(body)
            self._json(200, {"ok": True})
        elif self.path == "/v1/chat/completions":
            self._complete(body)
        else:
            self._json(404, {"error": {"message": f"no route {self.path}", "code": 404}})

    def _json(self, status: int, value: Any) -> None:
        self._plain(status, json.dumps(value), "application/json")

    def _plain(self, status: int, text: str, content_type: str, retry_after: str = "") -> None:
        payload = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(payload)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(payload)

    def _complete(self, body: dict[str, Any]) -> None:
        entry = Logged(str(body.get("model")), dict(self.headers), body, time.monotonic())
        behaviour = self.server.fake.arrive(entry)
        try:
            entry.ended = _Answer(self, entry, behaviour).play()
        except (ClientClosed, OSError):
            entry.ended = "stopped" if self.server.fake.stopping.is_set() else "client_closed"
            self.close_connection = True
        finally:
            entry.ended_at = time.monotonic()
            entry.done.set()


class _Answer:
    """One answer being played."""

    def __init__(self, handler: _Handler, entry: Logged, behaviour: Behaviour) -> None:
        self.handler, self.entry, self.behaviour = handler, entry, behaviour
        self.headers_sent = False

    def play(self) -> str:
        """Send it all; returns how it ended. Raises ClientClosed or OSError when the client went away."""
        if self.behaviour.hold == "headers":
            self._hold()
        if self.behaviour.status != 200:
            return self._refuse()
        self._headers()
        self._chunk({"role": "assistant", "content": None})
        finish = "stop"
        for delta in self._deltas():
            self._piece(delta)
            finish = "tool_calls" if "tool_calls" in delta else finish
        if self.behaviour.hold in (self.entry.pieces, "end"):
            self._hold()
        return self._end(self.behaviour.finish_reason or finish)

    def _refuse(self) -> str:
        behaviour = self.behaviour
        error = {"error": {"message": behaviour.message, "type": "fake_error", "code": behaviour.status}}
        text = behaviour.body or json.dumps(error)
        kind = behaviour.content_type or "application/json"
        self.handler._plain(behaviour.status, text, kind, behaviour.retry_after)
        return "status"

    def _headers(self) -> None:
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        if self.behaviour.chunked:
            self.handler.send_header("Transfer-Encoding", "chunked")
        else:
            self.handler.send_header("Connection", "close")
        self.handler.end_headers()
        self.headers_sent = True

    def _deltas(self) -> Iterator[dict[str, Any]]:
        for number in range(self.behaviour.reasoning):
            yield {"reasoning_content": f"r{number} "}
        messages = self.entry.body.get("messages", [])
        if self.behaviour.tools and not (messages and messages[-1].get("role") == "tool"):
            yield from self._tool_calls()
            return
        if not self.behaviour.text:
            yield from ({"content": f"t{number} "} for number in range(self.behaviour.tokens))
            return
        text = self.behaviour.text
        for role in ("tool", "user"):
            said = [message.get("content") for message in messages if message.get("role") == role]
            text = text.replace("{" + role + "}", str(said[-1]) if said else "")
        yield from ({"content": word} for word in _words(text))

    def _tool_calls(self) -> Iterator[dict[str, Any]]:
        """Each call in three pieces: id and name, half of the arguments, the other half."""
        for index, tool in enumerate(self.behaviour.tools):
            arguments = tool.get("arguments", {})
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call_id = f"call_{index}_{int(self.entry.at * 1e6)}"
            function = {"name": tool["name"], "arguments": ""}
            opening = {"index": index, "id": call_id, "type": "function", "function": function}
            yield {"tool_calls": [opening]}
            for part in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}

    def _piece(self, delta: dict[str, Any]) -> None:
        if self.behaviour.hold == self.entry.pieces:
            self._hold()
        if self.behaviour.delay_s:
            self._wait(self.behaviour.delay_s)
        self._chunk(delta)
        self.entry.pieces += 1

    def _end(self, finish: str) -> str:
        end = self.behaviour.end
        if end == "hang":
            self._hold(threading.Event())
        if end == "reset":
            return self._reset()
        if end == "garbage":
            self._write(b"data: {this is no JSON\n\n")
        if end == "error":
            error = {
                "message": self.behaviour.message,
                "type": "fake_error",
                "code": self.behaviour.error_code,
            }
            self._write(b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
        if end == "done":
            self._finish(finish)
        self._close_body()
        return "complete" if end == "done" else end

    def _finish(self, finish: str) -> None:
        self._chunk({}, finish)
        if self.behaviour.usage:
            count = self.entry.pieces
            details = {"cached_tokens": self.behaviour.cached}
            usage = {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}
            self._frame({"choices": [], "usage": {**usage, "prompt_tokens_details": details}})
        self._write(b"data: [DONE]\n\n")

    def _reset(self) -> str:
        connection = self.handler.connection
        if self.behaviour.chunked:
            connection.sendall(b"400\r\ndata: {")  # announces 1024 bytes
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.handler.close_connection = True
        for file in (self.handler.rfile, self.handler.wfile):
            file.close()
        connection.close()
        return "reset"

    def _close_body(self) -> None:
        if self.behaviour.chunked:
            self.handler.connection.sendall(b"0\r\n\r\n")
        else:
            self.handler.close_connection = True

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        self._frame({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _frame(self, value: dict[str, Any]) -> None:
        head = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": int(time.time())}
        self._write(b"data: " + json.dumps({**head, "model": self.entry.model, **value}).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self.behaviour.chunked else data
        self.handler.connection.sendall(framed)

    def _hold(self, gate: threading.Event | None = None) -> None:
        """Wait for the release, sending keepalives if ordered. Raises ClientClosed."""
        gate = gate or self.handler.server.fake.gate(self.entry.model)
        beat = time.monotonic()
        while not gate.is_set():
            self._wait(SLICE_S)
            if self.behaviour.keepalive_s and time.monotonic() - beat >= self.behaviour.keepalive_s:
                beat = time.monotonic()
                if self.headers_sent:
                    self._write(b": keepalive\n\n")

    def _wait(self, seconds: float) -> None:
        """Sleep so long; raises ClientClosed as soon as the client's end of the socket is closed."""
        connection = self.handler.connection
        connection.settimeout(seconds)
        try:
            if not connection.recv(1, socket.MSG_PEEK):
                raise ClientClosed
            time.sleep(seconds)  # the client sent more than its request: no news to wait for
        except TimeoutError:
            return
        finally:
            connection.settimeout(None)


def _words(text: str) -> list[str]:
    return [word + " " for word in text.split(" ")[:-1]] + [text.split(" ")[-1]]


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0)
    port = parser.parse_args().port
    with FakeProvider(port) as provider:
        print(f"listening on {provider.base_url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
