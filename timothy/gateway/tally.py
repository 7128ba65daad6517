"""The facts of one attempt, gathered from its events: what the ledger gets."""

from timothy.errors import EmptyOutput, Stopped
from timothy.events import AttemptEnded, AttemptStarted, AttemptStatus, Content, Event, Usage
from timothy.gateway.clock import Clock

NOTHING_TOLD = Usage(None, None, None)


class Tally:
    """One attempt so far. `shown`: text, reasoning or a tool call has come; `began`: monotonic seconds."""

    def __init__(self, started: AttemptStarted, clock: Clock) -> None:
        self._started = started
        self._clock = clock
        self._first: float | None = None
        self.began = clock.monotonic()
        self.shown = False
        self.usage = NOTHING_TOLD

    def note(self, event: Event) -> None:
        """Learn from `event`. Text after the first piece teaches nothing, and need not come here."""
        if isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, Content) and not self.shown:
            self.shown = True
            self._first = self._clock.monotonic()

    def ended(self, status: AttemptStatus, code: str | None, cost: float | None) -> AttemptEnded:
        """The ledger's row, with the times up to now."""
        return AttemptEnded(
            self._started.provider,
            self._started.model,
            status,
            code,
            self.usage.input_tokens,
            self.usage.output_tokens,
            self.usage.cached_tokens,
            cost,
            None if self._first is None else _milliseconds(self._first - self.began),
            _milliseconds(self._clock.monotonic() - self.began),
            self._started.started_at,
        )


def status_of(code: str) -> AttemptStatus:
    """The ledger's status of an attempt that ended with an error of that code."""
    if code == Stopped.code:
        return "stopped"
    return "incomplete" if code == EmptyOutput.code else "error"


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
