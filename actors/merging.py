"""Deltas that pile up while a turn is busy: they become one event, before it gets a number."""

from typing import Any

from actors.messages import Streamed
from timothy.events import ReasoningDelta, TextDelta
from timothy.turn import inputs

MOST_DELTAS = 256
MOST_CHARACTERS = 16_384  # how far behind a slow viewer may be is counted in events


class Held:
    """Deltas of one kind and step that were not shown yet; true while there are some."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._characters = 0
        self._kind: type[TextDelta | ReasoningDelta] = TextDelta
        self._step = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    @property
    def full(self) -> bool:
        """True when they must be shown before anything is added."""
        return len(self._texts) >= MOST_DELTAS or self._characters >= MOST_CHARACTERS

    def fits(self, message: Streamed) -> bool:
        """True when the message's delta may become part of the same event."""
        return not self._texts or (type(message.event) is self._kind and message.step == self._step)

    def add(self, message: Streamed) -> None:
        """Keep a delta that fits."""
        event: Any = message.event
        self._kind, self._step = type(event), message.step
        self._texts.append(event.text)
        self._characters += len(event.text)

    def take(self) -> inputs.Streamed:
        """All of them as one; none is left."""
        event = self._kind("".join(self._texts))
        self._texts.clear()
        self._characters = 0
        return inputs.Streamed(self._step, event)
