"""Which entries of the chain rest: a provider that fails again and again, or asks for time, is not asked."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from timothy.config import ProviderSettings
from timothy.errors import ContextOverflow, Overloaded, ProviderRefused, RateLimited, Stopped
from timothy.events import Done, Error, Terminal
from timothy.gateway.base import ProviderRow
from timothy.gateway.clock import Clock

FAILURES_IN_A_ROW = 3
REST_S = 30.0
LONGEST_REST_S = 600.0
NO_FAILURE_OF_THE_PROVIDER = (Stopped.code, ProviderRefused.code, ContextOverflow.code)
ASKS_FOR_TIME = (RateLimited.code, Overloaded.code)


@dataclass
class _Health:
    failures: int = 0
    failed_at: float = 0.0
    free_at: float = 0.0
    last_error: str | None = None


class Cooling:
    """The health of every entry, by name; safe to use from many turns at once."""

    def __init__(self, names: Iterable[str], clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._health = {name: _Health() for name in names}

    def note(self, name: str, began: float, terminal: Terminal) -> None:
        """Learn from the end of an attempt that began at `began`.

        A stop, or a request that is wrong in itself, teaches nothing; nor does the success of an answer
        that is older than the last failure.
        """
        if isinstance(terminal, Done):
            self._served(name, began)
        elif terminal.code not in NO_FAILURE_OF_THE_PROVIDER:
            self._failed(name, terminal)

    def order(self, entries: list[ProviderSettings]) -> tuple[list[ProviderSettings], int]:
        """`entries` as they are to be tried, and the index of the one that gets the retries.

        First those that can serve, in the chain's order; then, for when all of these have failed, the
        cooling ones, the one that is free first in front. The retries are for the last that can serve.
        """
        now = self._clock.monotonic()
        with self._lock:
            free_at = {entry.name: self._health[entry.name].free_at for entry in entries}
        ready = [entry for entry in entries if free_at[entry.name] <= now]
        resting = [entry for entry in entries if free_at[entry.name] > now]
        return ready + sorted(resting, key=lambda entry: free_at[entry.name]), max(0, len(ready) - 1)

    def row(self, entry: ProviderSettings) -> ProviderRow:
        """The entry as `GET /v1/providers` shows it; healthy means that its last attempt did not fail."""
        now = self._clock.monotonic()
        with self._lock:
            health = self._health[entry.name]
            remaining = health.free_at - now
            until = self._clock.stamp_in(remaining) if remaining > 0 else None
            return ProviderRow(
                entry.name, entry.driver, entry.model, health.failures == 0, until, health.last_error
            )

    def _served(self, name: str, began: float) -> None:
        with self._lock:
            if began >= self._health[name].failed_at:
                self._health[name] = _Health()

    def _failed(self, name: str, error: Error) -> None:
        with self._lock:
            health = self._health[name]
            health.failures += 1
            health.failed_at = self._clock.monotonic()
            health.last_error = f"{error.code}: {error.message}"
            rest = REST_S if health.failures >= FAILURES_IN_A_ROW else 0.0
            if error.code in ASKS_FOR_TIME and error.retry_after_s is not None:
                rest = max(rest, min(error.retry_after_s, LONGEST_REST_S))
            if rest:
                health.free_at = max(health.free_at, health.failed_at + rest)
