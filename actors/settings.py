"""What a person set in the page: kept in the database, used from the moment that it is durable on."""

import threading
import uuid
from collections.abc import Callable, Mapping

from timothy.eventlog.records import AnyOrder, ChangeSettings, Refused, Verdict

Write = Callable[[AnyOrder], Verdict]


class Settings:
    """Named values, read by anyone at any time."""

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._values: dict[str, str | None] = dict(stored)
        self._changing = threading.Lock()

    def get(self, key: str) -> str | None:
        """The value, or None when none is set."""
        return self._values.get(key)

    def change(self, values: Mapping[str, str | None], write: Write) -> Verdict:
        """Have these written, None for none at all, then use them. Raises what `write` raises."""
        order = ChangeSettings(append_id=str(uuid.uuid4()), session_id="", values=dict(values))
        with self._changing:  # what was written last is what is used
            verdict = write(order)
            if not isinstance(verdict, Refused):
                self._values = {**self._values, **values}
        return verdict
