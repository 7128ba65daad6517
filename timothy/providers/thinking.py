"""Thinking that a model writes into its answer, between `<think>` and `</think>` at the very start."""

from typing import Literal

OPEN, CLOSE = "<think>", "</think>"
Part = tuple[Literal["text", "reasoning"], str]


class Thinking:
    """Sorts an answer's pieces, in any split. Once `over`, the pieces are text and need not come here.

    Only a tag that begins the answer counts: one in the middle of prose is prose.
    """

    def __init__(self) -> None:
        self.over = False
        self._held = ""
        self._inside = False
        self._closed = False
        self._thoughts: list[str] = []

    def feed(self, piece: str) -> list[Part]:
        """The parts that are certain now."""
        held, self._held = self._held + piece, ""
        if self._inside:
            return self._think(held)
        begun = held.lstrip()
        if self._closed:
            return self._answer(begun)
        if begun.startswith(OPEN):
            self._inside = True
            return self._think(begun.removeprefix(OPEN))
        if OPEN.startswith(begun):
            self._held = held
            return []
        return self._answer(held)

    def finish(self, *, cut: bool) -> list[Part]:
        """What was held back. Thinking that was never closed is the answer, unless it was cut short."""
        held, self._held, self.over = self._held, "", True
        if not self._inside:
            return [("text", held)] if held else []
        self._thoughts.append(held)
        parts: list[Part] = [("reasoning", held)] if held else []
        thoughts = "".join(self._thoughts)
        return parts if cut or not thoughts else [*parts, ("text", thoughts)]

    def _answer(self, text: str) -> list[Part]:
        self.over = bool(text)
        return [("text", text)] if text else []

    def _think(self, text: str) -> list[Part]:
        thought, tag, rest = text.partition(CLOSE)
        if not tag:
            thought, self._held = _split_tag(text)
            self._thoughts.append(thought)
            return [("reasoning", thought)] if thought else []
        self._inside, self._closed = False, True
        self._thoughts.clear()
        parts: list[Part] = [("reasoning", thought)] if thought else []
        return parts + self._answer(rest.lstrip())


def _split_tag(text: str) -> tuple[str, str]:
    """`text` without, and the, beginning of a closing tag at its end."""
    for length in range(min(len(CLOSE) - 1, len(text)), 0, -1):
        if CLOSE.startswith(text[-length:]):
            return text[:-length], text[-length:]
    return text, ""
