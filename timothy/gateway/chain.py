"""The chain: entries tried in order, failover only while nothing was shown, one named end."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import (
    ChainExhausted,
    ContextOverflow,
    EmptyOutput,
    EmptyResponse,
    Overloaded,
    ProviderFailed,
    ProviderRefused,
    ProviderUnreachable,
    RateLimited,
    Stopped,
)
from timothy.events import Error, Event, Failover, Retry
from timothy.gateway.attempt import Attempt
from timothy.gateway.clock import Clock
from timothy.gateway.cooling import Cooling
from timothy.providers.base import Driver
from timothy.stream import failure

RETRY_DELAYS_S = (0.5, 1.0)
LONGEST_WAIT_S = 60.0
RETRIED = (ProviderUnreachable.code, RateLimited.code, ProviderFailed.code, Overloaded.code)
ENDS_THE_CHAIN = (Stopped.code, ProviderRefused.code, ContextOverflow.code)


@dataclass(frozen=True)
class Failed:
    """An attempt that showed nothing, and why it ended."""

    entry: ProviderSettings
    error: Error


class Chain:
    """One model request on its way through `entries`; every attempt that failed is in `failed`."""

    def __init__(self, drivers: Mapping[str, Driver], cooling: Cooling, clock: Clock) -> None:
        self._drivers = drivers
        self._cooling = cooling
        self._clock = clock
        self._failed: list[Failed] = []

    def events(
        self, entries: list[ProviderSettings], request: ModelRequest, cancel: Cancel
    ) -> Generator[Event]:
        """Everything that the request's viewer and the ledger hear, with one terminal, last."""
        order, patient = self._cooling.order(entries)
        for position, entry in enumerate(order):
            if self._failed:
                last = self._failed[-1]
                yield Failover(last.entry.name, entry.name, last.error.code)
            delays = RETRY_DELAYS_S if position == patient else ()
            if (yield from self._serve(entry, request, cancel, delays)):
                return
        yield self._verdict(order)

    def _serve(
        self, entry: ProviderSettings, request: ModelRequest, cancel: Cancel, delays: Sequence[float]
    ) -> Generator[Event, None, bool]:
        """Try `entry`, and again after each of `delays`; True when the request's terminal was said."""
        for number in range(len(delays) + 1):
            if cancel.cancelled:
                yield failure(Stopped("the answer was stopped"))
                return True
            if (yield from self._attempt(entry, request, cancel)):
                return True
            error = self._failed[-1].error
            if number == len(delays) or error.code not in RETRIED or not error.retryable:
                return False
            delay = max(delays[number], min(error.retry_after_s or 0.0, LONGEST_WAIT_S))
            yield Retry(number + 2, round(delay * 1000), error.code)
            self._clock.wait(cancel, delay)
        return False

    def _attempt(
        self, entry: ProviderSettings, request: ModelRequest, cancel: Cancel
    ) -> Generator[Event, None, bool]:
        attempt = Attempt(entry, self._drivers[entry.name], self._clock)
        yield from attempt.events(request, cancel)
        terminal = attempt.terminal
        self._cooling.note(entry.name, attempt.began, terminal)
        if isinstance(terminal, Error) and not attempt.shown and terminal.code not in ENDS_THE_CHAIN:
            self._failed.append(Failed(entry, terminal))
            return False
        yield terminal
        return True

    def _verdict(self, order: list[ProviderSettings]) -> Error:
        """What all the failures together are called."""
        if all(failed.error.code == EmptyOutput.code for failed in self._failed):
            return failure(EmptyResponse(f"{_names(order)}: {self._failed[-1].error.message}"))
        if len(order) == 1:
            return self._failed[-1].error
        last = {failed.entry.name: failed.error for failed in self._failed}
        lines = [f"{name}: {error.code}: {error.message}" for name, error in last.items()]
        return failure(ChainExhausted(f"all {len(last)} providers failed. " + "; ".join(lines)))


def _names(entries: list[ProviderSettings]) -> str:
    return " and ".join(entry.name for entry in entries)
