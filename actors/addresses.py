"""Where a person is told: the addresses of the configuration, and those that were set in the page."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from actors.settings import Settings, Write
from timothy.config import Notifications
from timothy.eventlog.records import Verdict

Kind = Literal["webhook", "ntfy"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Address(msgspec.Struct, frozen=True):
    """A URL that takes what its kind is sent, and who named it."""

    kind: Kind
    url: str
    source: Literal["configuration", "settings"]


class Addresses:
    """All that hold now."""

    def __init__(self, configured: Notifications, settings: Settings) -> None:
        self._configured = configured
        self._settings = settings

    def configured(self) -> dict[Kind, str | None]:
        """What the configuration names, by kind."""
        return {kind: getattr(self._configured, kind) or None for kind in KINDS}

    def settings(self) -> dict[Kind, str | None]:
        """What was set in the page, by kind."""
        return {kind: self._settings.get(_key(kind)) for kind in KINDS}

    def all(self) -> list[Address]:
        """Every address once, those of the configuration first."""
        configured, settings = self.configured(), self.settings()
        found = [Address(kind, url, "configuration") for kind, url in configured.items() if url]
        more = [(kind, url) for kind, url in settings.items() if url and url != configured[kind]]
        return found + [Address(kind, url, "settings") for kind, url in more]

    def change(self, change: Mapping[Kind, str | None], write: Write) -> Verdict:
        """Call these from now on, or none for None; see `Settings.change`."""
        return self._settings.change({_key(kind): url for kind, url in change.items()}, write)


def _key(kind: Kind) -> str:
    return f"notify.{kind}"
