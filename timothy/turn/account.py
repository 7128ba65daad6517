"""What a turn has cost so far: tokens, money, and who served it."""

from collections.abc import Callable

from timothy.events import AttemptEnded, AttemptStarted, Usage
from timothy.moment import stamp


class Account:
    """Sums a turn's attempts. Tokens and money that nobody told are unknown, not zero."""

    def __init__(self) -> None:
        self.provider: str | None = None
        self.model: str | None = None
        self._before: Usage | None = None
        self._current: Usage | None = None
        self._open: AttemptStarted | None = None
        self._opened_at = 0.0
        self._first_at: float | None = None
        self._costs: list[float | None] = []

    @property
    def usage(self) -> Usage | None:
        """The turn's sum so far, or None when nobody told anything."""
        return _add(self._before, self._current)

    @property
    def cost(self) -> float | None:
        """The turn's cost, or None when a part of it is unknown."""
        known = [cost for cost in self._costs if cost is not None]
        return sum(known) if known and len(known) == len(self._costs) else None

    def opened(self, attempt: AttemptStarted, now: float) -> None:
        """An attempt begins; `now` is monotonic, in seconds."""
        self._open, self._opened_at, self._first_at = attempt, now, None
        self.provider, self.model = attempt.provider, attempt.model

    def spoke(self, now: Callable[[], float]) -> None:
        """The running attempt showed text, reasoning or a tool call; only its first time counts."""
        if self._first_at is None:
            self._first_at = now()

    def told(self, usage: Usage) -> Usage:
        """The running request told its usage; returns the turn's sum."""
        self._current = usage
        return _add(self._before, usage) or usage

    def closed(self, attempt: AttemptEnded) -> None:
        """The attempt ended; its cost counts unless it failed without one."""
        self._open = None
        self.provider, self.model = attempt.provider, attempt.model
        if attempt.status != "error" or attempt.cost is not None:
            self._costs.append(attempt.cost)
        self._before, self._current = self.usage, None

    def cut(self, code: str, now: float) -> AttemptEnded | None:
        """The row of the attempt that runs now, ended by us with `code`, or None when none runs.

        An answer that grew too long is an incomplete one; all else was stopped.
        """
        if self._open is None:
            return None
        usage = self._current or Usage(None, None, None)
        attempt = AttemptEnded(
            provider=self._open.provider,
            model=self._open.model,
            status="incomplete" if code == "length" else "stopped",
            code=code,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost=None,
            first_token_ms=None
            if self._first_at is None
            else _milliseconds(self._first_at - self._opened_at),
            duration_ms=_milliseconds(now - self._opened_at),
            started_at=self._open.started_at or stamp(),
        )
        self.closed(attempt)
        return attempt


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _add(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return Usage(
        _sum(one.input_tokens, other.input_tokens),
        _sum(one.output_tokens, other.output_tokens),
        _sum(one.cached_tokens, other.cached_tokens),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other + (one or 0)
