"""What a driver is: one module = one wire format, found by its module's name."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.events import Event


class Driver(Protocol):
    """One provider. A driver's module names its class `Driver`; it is built once and used by many turns."""

    def __init__(self, settings: ProviderSettings, home: Path) -> None: ...

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """One attempt: content, `Usage`, `Incomplete`, `Status`, then exactly one terminal; raises nothing.

        The connection is new, tied to `cancel`, and closed when the iterator is closed.
        """
        ...

    def close(self) -> None:
        """Give back what the driver holds (a child process); further streams fail by name."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """A driver that can say what its model does, before anybody asks it something."""

    def state(self) -> str:
        """In words for a person."""
        ...


def load(settings: ProviderSettings, home: Path) -> Driver:
    """The driver that `settings.driver` names, set up for this entry."""
    module = importlib.import_module(f"timothy.providers.{settings.driver}")
    return cast(Driver, module.Driver(settings, home))
