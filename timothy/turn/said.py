"""The growing text of a turn: what was shown, and what of it is not saved yet."""

from timothy.eventlog.records import Piece


class Said:
    """Text and reasoning, appended only; `bytes` is their size in UTF-8."""

    def __init__(self) -> None:
        self.bytes = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._saved = (0, 0)
        self._pieces = 0

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The whole reasoning so far."""
        return "".join(self._reasoning)

    @property
    def unsaved(self) -> bool:
        """True while something was shown that no checkpoint holds."""
        return self._saved != (len(self._text), len(self._reasoning))

    @property
    def needs_break(self) -> bool:
        """True when new text would run into the text of an earlier step."""
        return bool(self._text) and not self._text[-1].endswith("\n")

    def add_text(self, text: str) -> None:
        """A piece of the answer was shown."""
        self._text.append(text)
        self.bytes += _size(text)

    def add_reasoning(self, text: str) -> None:
        """A piece of the thinking was shown."""
        self._reasoning.append(text)
        self.bytes += _size(text)

    def piece(self, provider: str | None, model: str | None) -> Piece:
        """What is not saved yet, as the next numbered piece; it counts as saved from now on."""
        text, reasoning = self._saved
        self._pieces += 1
        piece = Piece(
            self._pieces, "".join(self._text[text:]), "".join(self._reasoning[reasoning:]), provider, model
        )
        self._saved = (len(self._text), len(self._reasoning))
        return piece


def _size(text: str) -> int:
    """Bytes in UTF-8; for most tokens known without encoding them."""
    return len(text) if text.isascii() else len(text.encode())
