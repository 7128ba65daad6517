"""What every model is told before a conversation: the house's own words, then those of the person."""

from actors.settings import Settings, Write
from timothy.eventlog.records import Verdict

HOUSE = "You are a helpful assistant."
_KEY = "assistant.instructions"


class Instructions:
    """Those of the configuration, and those that were set in the page; a change holds for the next turn."""

    def __init__(self, configured: str, settings: Settings) -> None:
        self.configured = configured.strip()
        self._settings = settings

    @property
    def settings(self) -> str | None:
        """What was set in the page, or None."""
        return self._settings.get(_KEY)

    def prompt(self) -> str:
        """The system message of a turn that begins now."""
        return "\n\n".join(part for part in (HOUSE, self.configured, self.settings) if part)

    def change(self, text: str | None, write: Write) -> Verdict:
        """Say this from the next turn on, or nothing for None; see `Settings.change`."""
        return self._settings.change({_KEY: text}, write)
