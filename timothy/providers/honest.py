"""Text that anything can store: no half characters, no NUL."""

import json
from typing import Any

from timothy.text import honest

REPLACEMENT = "\ufffd"
MAX_DEPTH = 100
_HIGH = ("\ud800", "\udbff")


def honest_value(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A JSON value that every encoder takes: texts repaired, keys too, integers over 64 bits as text.

    Raises ValueError when it is nested deeper than `depth`.
    """
    if depth < 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            return honest(value)
        case dict():
            return {honest(key): honest_value(item, depth - 1) for key, item in value.items()}
        case list():
            return [honest_value(item, depth - 1) for item in value]
        case int() if value.bit_length() > 63:
            return str(value)
        case _:
            return value


def lenient_json(text: str) -> Any:
    """The JSON value in `text`, with half characters and line ends in its strings. Raises ValueError."""
    try:
        return json.loads(text, strict=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Mender:
    """One text that comes in pieces: a character split over two of them is joined."""

    def __init__(self) -> None:
        self._half = ""

    def mend(self, piece: str) -> str:
        """The piece, repaired; a half character at its end is kept for the next one."""
        if not self._half and piece.isascii() and "\0" not in piece:
            return piece
        if self._half:
            piece, self._half = self._half + piece, ""
        if piece and _HIGH[0] <= piece[-1] <= _HIGH[1]:
            piece, self._half = piece[:-1], piece[-1]
        return honest(piece)

    def rest(self) -> str:
        """What is left of a character whose other half never came."""
        half, self._half = self._half, ""
        return REPLACEMENT if half else ""
