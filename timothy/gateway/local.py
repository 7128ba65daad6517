"""The gateway in this process: the configured chain, its drivers and their health."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import msgspec

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import ProviderDeclined, TurnAborted, UnknownModel
from timothy.events import Event
from timothy.gateway.attempt import model_of
from timothy.gateway.base import ModelRow, ProviderRow
from timothy.gateway.chain import Chain
from timothy.gateway.clock import Clock
from timothy.gateway.cooling import Cooling
from timothy.providers.base import Driver, Stateful, load
from timothy.stream import failure, terminated


class LocalGateway:
    """The chain in this process; see timothy.gateway.base. Raises ConfigError for an entry that cannot be.

    An entry whose driver cannot be loaded (a package is missing) stays in the chain and fails by name.
    """

    def __init__(
        self,
        chain: tuple[ProviderSettings, ...],
        home: Path,
        clock: Clock | None = None,
        driver: Callable[[ProviderSettings, Path], Driver] = load,
    ) -> None:
        self._chain = chain
        self._clock = clock or Clock()
        self._cooling = Cooling((entry.name for entry in chain), self._clock)
        self._drivers = {entry.name: _driver(entry, home, driver) for entry in chain}
        self._ids = _ids(chain)

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """The events of one request; see timothy.gateway.base."""
        return terminated(self._events(request, cancel), cut=TurnAborted)

    def models(self) -> list[ModelRow]:
        """A row per entry. Of two entries with one model, the later one's id is `name/model`."""
        return [
            ModelRow(self._ids[entry.name], entry.name, entry.driver, entry.context_window)
            for entry in self._chain
        ]

    def providers(self) -> list[ProviderRow]:
        """The chain in order, and how each entry does."""
        return [self._row(entry) for entry in self._chain]

    def _row(self, entry: ProviderSettings) -> ProviderRow:
        """With the state of a driver that has one: the embedded model's."""
        driver = self._drivers[entry.name]
        state = driver.state() if isinstance(driver, Stateful) else None
        return msgspec.structs.replace(self._cooling.row(entry), state=state)

    def close(self) -> None:
        """Give back what the drivers hold."""
        for driver in self._drivers.values():
            driver.close()

    def _events(self, request: ModelRequest, cancel: Cancel) -> Generator[Event]:
        entries = self._entries(request.model)
        yield from Chain(self._drivers, self._cooling, self._clock).events(entries, request, cancel)

    def _entries(self, model: str | None) -> list[ProviderSettings]:
        """The chain, with the entry that `model` names in front. Raises UnknownModel."""
        if model is None:
            return list(self._chain)
        by_id = {self._ids[entry.name]: entry for entry in self._chain}
        by_name = {f"{entry.name}/{model_of(entry)}": entry for entry in self._chain}
        first = by_id.get(model) or by_name.get(model)
        if first is None:
            raise UnknownModel(f"no model {model!r}; there are: {', '.join(by_id)}")
        return [first, *(entry for entry in self._chain if entry is not first)]


def _driver(
    entry: ProviderSettings, home: Path, driver: Callable[[ProviderSettings, Path], Driver]
) -> Driver:
    try:
        return driver(entry, home)
    except ImportError as error:
        return _Missing(f"the driver {entry.driver!r} cannot be loaded: {error}")


class _Missing:
    """Stands for a driver that could not be loaded: every attempt fails with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """The reason, as a failure."""
        yield failure(ProviderDeclined(self._reason))

    def close(self) -> None:
        """Nothing is held."""


def _ids(chain: tuple[ProviderSettings, ...]) -> dict[str, str]:
    """The model's id of every entry, by the entry's name."""
    ids: dict[str, str] = {}
    for entry in chain:
        model = model_of(entry)
        ids[entry.name] = f"{entry.name}/{model}" if model in ids.values() else model
    return ids
