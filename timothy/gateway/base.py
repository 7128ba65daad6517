"""What a turn sees of all providers: one method, whether they are in this process or behind HTTP."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from timothy.cancel import Cancel
from timothy.conversation import ModelRequest
from timothy.errors import TimothyError
from timothy.events import Event


class ModelRow(msgspec.Struct, frozen=True):
    """A row of `GET /v1/models`; `context_window` in tokens, None when it is not known."""

    id: str
    provider: str
    driver: str
    context_window: int | None = None


class ProviderRow(msgspec.Struct, frozen=True):
    """A row of `GET /v1/providers`; `cooling_until` is RFC 3339 or None, `state` what a local model does."""

    name: str
    driver: str
    model: str
    healthy: bool
    cooling_until: str | None
    last_error: str | None
    state: str | None = None


class Gateway(Protocol):
    """The chain of providers, in process or behind `GATEWAY_URL`."""

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """The events of one model request, with `AttemptStarted` and `AttemptEnded` around every attempt.

        Ends with exactly one terminal; the last `AttemptEnded` comes before it. Raises nothing.
        """
        ...

    def models(self) -> list[ModelRow]:
        """What can be asked for by name."""
        ...

    def providers(self) -> list[ProviderRow]:
        """The chain's entries in order, and how they do."""
        ...

    def close(self) -> None:
        """Give back what the drivers hold."""
        ...


def knows(gateway: Gateway, model: str) -> bool:
    """Whether `model` can be asked for: an id, or `name/model`, which always works.

    True also when a separate gateway cannot be asked: the stream itself will tell what is wrong.
    """
    try:
        rows = gateway.models()
    except TimothyError:
        return True
    return any(model in (row.id, f"{row.provider}/{row.id}") for row in rows)
