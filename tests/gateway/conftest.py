"""Fakes around the chain: a clock that only moves when told, drivers that play what a test wrote."""

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.fakes.provider import FakeProvider
from timothy.cancel import Cancel
from timothy.config import Config, ProviderSettings
from timothy.conversation import Message, ModelRequest
from timothy.events import AttemptEnded, AttemptStarted, Done, Error, Event, Status, TextDelta
from timothy.gateway.base import Gateway
from timothy.gateway.clock import Clock
from timothy.gateway.local import LocalGateway
from timothy.gateway.remote import RemoteGateway
from web.gateway_app import create_app
from web.gateway_relay import Streams

REQUEST = ModelRequest(messages=(Message("user", "Hello"),))
ANSWER: tuple[Event, ...] = (TextDelta("Hi"), Done("stop"))


class FakeClock:
    """Time that moves by waits and by `pass_by`; `waits` are all the waits so far."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, wait=self.wait, stamp_in=lambda s: f"T{self.now + s:g}")

    def wait(self, cancel: Cancel, seconds: float) -> bool:
        if cancel.cancelled:
            return True
        self.waits.append(seconds)
        self.now += seconds
        return False

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


Play = Iterable[Event | Exception | Callable[[], None]]


class FakeDriver:
    """Plays one list a request, the last one again and again; an exception is raised, a callable called."""

    def __init__(self, plays: tuple[Play, ...]) -> None:
        self.plays = list(plays)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    def stream(self, request, cancel):
        self.requests.append(request)
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        try:
            for step in play:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, Event):
                    yield step
                else:
                    step()
        finally:
            self.closed += 1

    def close(self):
        self.closed = -1


class FakeChain:
    """A LocalGateway whose entries `a`, `b`, ... play what the test wrote."""

    def __init__(self, *entries: tuple[Play, ...], settings: tuple[dict, ...] = ()) -> None:
        self.time = FakeClock()
        self.cancel = Cancel()
        self.drivers = {chr(97 + number): FakeDriver(plays) for number, plays in enumerate(entries)}
        chain = [
            ProviderSettings(**{"name": name, "driver": "scripted", "model": f"model-{name}", **more})
            for name, more in zip(self.drivers, settings or [{}] * len(self.drivers), strict=True)
        ]
        self.gateway = LocalGateway(
            tuple(chain), Path(), self.time.clock(), driver=lambda entry, home: self.drivers[entry.name]
        )

    def ask(self, model: str | None = None) -> list[Event]:
        request = ModelRequest(messages=REQUEST.messages, model=model)
        return list(self.gateway.stream(request, self.cancel))

    def asked(self) -> dict[str, int]:
        """How many attempts each driver saw."""
        return {name: len(driver.requests) for name, driver in self.drivers.items()}


def shown(events: Iterable[Event]) -> list[Event]:
    """What a viewer is shown: no attempts, no waiting."""
    return [event for event in events if not isinstance(event, AttemptStarted | AttemptEnded | Status)]


def attempts(events: Iterable[Event]) -> list[tuple[str, str, str | None]]:
    """The ledger's rows in short: provider, status, code."""
    return [(row.provider, row.status, row.code) for row in events if isinstance(row, AttemptEnded)]


def fails(code: str, message: str = "words", **more) -> tuple[Event, ...]:
    """A play that only fails."""
    return (Error(code, message, True, **more),)


@pytest.fixture
def provider():
    """A fake provider over real HTTP."""
    with FakeProvider() as running:
        yield running


TOKEN = "gateway-token"


class GatewayServer:
    """A gateway behind HTTP in this process, over a threaded WSGI server; a context manager."""

    def __init__(self, gateway: Gateway, heartbeat_s: float = 20) -> None:
        self.streams = Streams(heartbeat_s)
        app = create_app(gateway, Config(), TOKEN, self.streams)
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.gateway = RemoteGateway(self.url, TOKEN)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)

    def __enter__(self) -> "GatewayServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.streams.shut_down(grace_s=5)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_: object) -> None:
        """Silence."""


def entries(provider: FakeProvider, *models: str, **more: Any) -> tuple[ProviderSettings, ...]:
    """A chain of entries `a`, `b`, ... that ask the fake provider for these models."""
    return tuple(
        ProviderSettings(name=name, driver="openai", base_url=provider.base_url, model=model, **more)
        for name, model in zip("abcdefgh", models, strict=False)
    )


@pytest.fixture(params=["in process", "behind HTTP"])
def opened(request, tmp_path):
    """Opens a chain as a gateway: here, or behind HTTP."""
    with ExitStack() as stack:

        def open_chain(chain: tuple[ProviderSettings, ...]) -> Gateway:
            local = LocalGateway(chain, tmp_path)
            stack.callback(local.close)
            if request.param == "in process":
                return local
            return stack.enter_context(GatewayServer(local)).gateway

        yield open_chain


class Reading:
    """A stream read by a thread of its own, so that a test can look at it while it runs."""

    def __init__(self, gateway: Gateway, request: ModelRequest = REQUEST) -> None:
        self.cancel = Cancel()
        self.events: list[Event] = []
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(gateway, request), daemon=True)
        self._thread.start()

    def _read(self, gateway: Gateway, request: ModelRequest) -> None:
        for event in gateway.stream(request, self.cancel):
            with self._news:
                self.events.append(event)
                self._news.notify_all()

    def until(self, expected: Callable[[Event], bool], timeout: float = 5) -> None:
        """Wait until such an event has come. Raises AssertionError."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(expected, self.events)), timeout), self.events

    def end(self, timeout: float = 5) -> list[Event]:
        """All events, once the stream has ended."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), self.events
        return self.events


def is_text(event: Event) -> bool:
    return isinstance(event, TextDelta)
