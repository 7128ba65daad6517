"""What every model is told before a conversation: the house's own words, then those of the person."""

import threading
import uuid
from collections.abc import Callable, Mapping

from timothy.eventlog.records import AnyOrder, ChangeSettings, Refused, Verdict

HOUSE = "You are a helpful assistant."
_KEY = "assistant.instructions"


class Instructions:
    """Those of the configuration, and those that were set in the page; a change holds for the next turn."""

    def __init__(self, configured: str, stored: Mapping[str, str]) -> None:
        self.configured = configured.strip()
        self._set = stored.get(_KEY)
        self._changing = threading.Lock()

    @property
    def settings(self) -> str | None:
        """What was set in the page, or None."""
        return self._set

    def prompt(self) -> str:
        """The system message of a turn that begins now."""
        return "\n\n".join(part for part in (HOUSE, self.configured, self._set) if part)

    def change(self, text: str | None, write: Callable[[AnyOrder], Verdict]) -> Verdict:
        """Have the text written, None for none at all, then use it. Raises what `write` raises."""
        order = ChangeSettings(append_id=str(uuid.uuid4()), session_id="", values={_KEY: text})
        with self._changing:  # what was written last is what is used
            verdict = write(order)
            if not isinstance(verdict, Refused):
                self._set = text
        return verdict
