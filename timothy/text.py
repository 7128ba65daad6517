"""Text kept honest: what JSON lets through but a database or a reader cannot take is repaired."""

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()


def honest(text: str) -> str:
    """`text` with surrogate pairs joined, and every lone surrogate and NUL replaced by U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_json(value: Any) -> bytes:
    """`value` (builtins, structs) as one line of JSON in UTF-8; text that UTF-8 cannot hold is repaired."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_repaired(msgspec.to_builtins(value)))


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return honest(value)
    if isinstance(value, dict):
        return {honest(key): _repaired(item) for key, item in value.items()}
    return [_repaired(item) for item in value] if isinstance(value, list) else value
