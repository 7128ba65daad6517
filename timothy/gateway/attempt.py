"""One attempt at one entry of the chain: what it shows, how it ends, and what the ledger hears of it."""

from collections.abc import Generator

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import EmptyOutput, Stopped, StreamCut
from timothy.events import (
    AttemptStarted,
    AttemptStatus,
    Done,
    Error,
    Event,
    Incomplete,
    Status,
    Terminal,
    TextDelta,
    Usage,
)
from timothy.gateway.base import ProviderRow
from timothy.gateway.clock import Clock
from timothy.gateway.tally import Tally, status_of
from timothy.providers.base import Driver
from timothy.stream import failure, terminated


class Attempt:
    """Dial `entry` once. After `events()` is used up, `terminal` tells how it ended.

    `shown`: text, reasoning or a tool call has come, so nobody may start over. `began`: monotonic seconds.
    """

    def __init__(self, entry: ProviderSettings, driver: Driver, clock: Clock) -> None:
        self._entry = entry
        self._driver = driver
        self._started = AttemptStarted(entry.name, model_of(entry), clock.stamp_in(0))
        self._tally = Tally(self._started, clock)
        self._incomplete: Incomplete | None = None
        self.terminal: Terminal = failure(StreamCut("the attempt never ended"))

    @property
    def shown(self) -> bool:
        """See the class."""
        return self._tally.shown

    @property
    def began(self) -> float:
        """See the class."""
        return self._tally.began

    def events(self, request: ModelRequest, cancel: Cancel) -> Generator[Event]:
        """What the attempt says, between its `AttemptStarted` and its `AttemptEnded`; no terminal."""
        yield self._started
        yield Status("waiting_for_provider", f"waiting for {self._entry.name}")
        yield from self._content(request, cancel)
        self.terminal = self._judge(self.terminal, cancel)
        if self._incomplete is not None and isinstance(self.terminal, Done):
            yield self._incomplete
        status, code = self._verdict()
        yield self._tally.ended(status, code, cost(self._entry, self._tally.usage))

    def _content(self, request: ModelRequest, cancel: Cancel) -> Generator[Event]:
        tally = self._tally
        for event in terminated(self._dialled(request, cancel), cut=StreamCut):
            if type(event) is TextDelta and tally.shown:  # nearly all events, so asked first
                yield event
            elif isinstance(event, Done | Error):
                self.terminal = event
            elif isinstance(event, Incomplete):  # kept: an attempt that shows nothing is no incomplete answer
                self._incomplete = event
            else:
                tally.note(event)
                yield event

    def _dialled(self, request: ModelRequest, cancel: Cancel) -> Generator[Event]:
        """The driver's stream; a driver that raises before it has one ends by name too."""
        yield from self._driver.stream(request, cancel)

    def _judge(self, terminal: Terminal, cancel: Cancel) -> Terminal:
        """The terminal as the chain takes it: a stop is no failure, and nothing at all is no answer."""
        if isinstance(terminal, Done) and self.shown:
            return terminal
        if cancel.cancelled:
            return failure(Stopped("the answer was stopped"))
        if isinstance(terminal, Error):
            return terminal
        reason = self._incomplete.reason if self._incomplete else terminal.finish_reason
        return failure(EmptyOutput(f"finished ({reason}) without text, reasoning or a tool call"))

    def _verdict(self) -> tuple[AttemptStatus, str | None]:
        """Status and code for the ledger."""
        if isinstance(self.terminal, Error):
            return status_of(self.terminal.code), self.terminal.code
        return ("incomplete", self._incomplete.reason) if self._incomplete else ("ok", None)


def model_of(entry: ProviderSettings | ProviderRow) -> str:
    """The model's name in events and ids; an entry that needs none is called by its own name."""
    return entry.model or entry.name


def cost(entry: ProviderSettings, usage: Usage) -> float | None:
    """What the tokens cost by the entry's prices per million, or None when a price or a count is unknown.

    Cached tokens are part of the input tokens; without a price of their own they cost what the others do.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if entry.price_in is None or entry.price_out is None:
        return None
    cached = usage.cached_tokens or 0
    price_cached = entry.price_in if entry.price_cached is None else entry.price_cached
    fresh = max(0, usage.input_tokens - cached)
    return (fresh * entry.price_in + cached * price_cached + usage.output_tokens * entry.price_out) / 1e6
