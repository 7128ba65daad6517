"""Where a person is told: the addresses of the configuration, and those that were set in the page."""

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Literal, get_args

import msgspec

from timothy.config import Notifications
from timothy.eventlog.records import AnyOrder, ChangeSettings, Refused, Verdict

Kind = Literal["webhook", "ntfy"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Address(msgspec.Struct, frozen=True):
    """A URL that takes what its kind is sent, and who named it."""

    kind: Kind
    url: str
    source: Literal["configuration", "settings"]


class Addresses:
    """All that hold now. A change is used from the moment that it is durable on."""

    def __init__(self, configured: Notifications, stored: Mapping[str, str]) -> None:
        self._configured = configured
        self._set = {kind: stored.get(_key(kind)) for kind in KINDS}
        self._changing = threading.Lock()

    def configured(self) -> dict[Kind, str | None]:
        """What the configuration names, by kind."""
        return {kind: getattr(self._configured, kind) or None for kind in KINDS}

    def settings(self) -> dict[Kind, str | None]:
        """What was set in the page, by kind."""
        return dict(self._set)

    def all(self) -> list[Address]:
        """Every address once, those of the configuration first."""
        configured, settings = self.configured(), self.settings()
        found = [Address(kind, url, "configuration") for kind, url in configured.items() if url]
        more = [(kind, url) for kind, url in settings.items() if url and url != configured[kind]]
        return found + [Address(kind, url, "settings") for kind, url in more]

    def change(self, change: Mapping[Kind, str | None], write: Callable[[AnyOrder], Verdict]) -> Verdict:
        """Have these written, None for none at all, then use them. Raises what `write` raises."""
        values = {_key(kind): url for kind, url in change.items()}
        order = ChangeSettings(append_id=str(uuid.uuid4()), session_id="", values=values)
        with self._changing:  # what was written last is what is used
            verdict = write(order)
            if not isinstance(verdict, Refused):
                self._set = {**self._set, **change}
        return verdict


def _key(kind: Kind) -> str:
    return f"notify.{kind}"
