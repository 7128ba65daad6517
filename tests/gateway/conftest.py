"""Fakes around the chain: a clock that only moves when told, drivers that play what a test wrote."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.fakes.provider import FakeProvider
from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import Message, ModelRequest
from timothy.events import AttemptEnded, AttemptStarted, Done, Error, Event, Status, TextDelta
from timothy.gateway.clock import Clock
from timothy.gateway.local import LocalGateway

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
