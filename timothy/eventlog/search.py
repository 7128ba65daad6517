"""Which sessions hold some words, without an index: see docs/decisions.md for what that costs and saves."""

import re
from typing import Any

import peewee

from timothy.database import HOLDS_FOLDED, SessionEvents, Sessions
from timothy.text import to_json

TEXTS = ("user_message", "assistant_turn", "pending_state", "turn_failed")
"""The kinds of rows that are looked into: messages, answers, partials, failures."""


def holding(words: str) -> Any:
    """A condition on `Sessions`: the title, or a text in the session's log, holds the words in any case.

    It is asked of one session after the other: no more of them are looked through than fill a page.
    """
    return _holds(Sessions.title, words) | peewee.fn.EXISTS(_rows_with_text(words))


def _rows_with_text(words: str) -> Any:
    """The outer query's session's rows that hold the words.

    Only a payload that holds their longest part in ASCII, as JSON writes it, is taken apart.
    """
    text = peewee.fn.json_extract(SessionEvents.payload, "$.text")
    reason = peewee.fn.json_extract(SessionEvents.payload, "$.message")
    part = max(re.split(r"[^\x00-\x7f]+", words), key=len)
    written = to_json(part).decode()[1:-1]
    return SessionEvents.select(peewee.SQL("1")).where(
        (SessionEvents.session_id == Sessions.id)
        & SessionEvents.kind.in_(TEXTS)
        & SessionEvents.payload.contains(written)
        & (_holds(text, words) | _holds(reason, words))
    )


def _holds(text: Any, words: str) -> Any:
    """SQLite knows the case of ASCII's letters alone, but does that fast."""
    if words.isascii():
        return text.contains(words)
    return getattr(peewee.fn, HOLDS_FOLDED)(text, words.casefold())
