"""Which sessions hold some words, without an index: see docs/decisions.md for what that costs and saves."""

from typing import Any

import peewee

from timothy.database import SessionEvents, Sessions
from timothy.text import to_json

TEXTS = ("user_message", "assistant_turn", "pending_state", "turn_failed")
"""The kinds of rows that are looked into: messages, answers, partials, failures."""


def holding(words: str) -> Any:
    """A condition on `Sessions`: the title, or a text in the session's log, holds the words.

    It is asked of one session after the other: no more of them are looked through than fill a page.
    """
    return Sessions.title.contains(words) | peewee.fn.EXISTS(_rows_with_text(words))


def _rows_with_text(words: str) -> Any:
    """The outer query's session's rows that hold the words.

    Only a payload that holds them as JSON writes them is taken apart.
    """
    text = peewee.fn.json_extract(SessionEvents.payload, "$.text")
    reason = peewee.fn.json_extract(SessionEvents.payload, "$.message")
    written = to_json(words).decode()[1:-1]
    return SessionEvents.select(peewee.SQL("1")).where(
        (SessionEvents.session_id == Sessions.id)
        & SessionEvents.kind.in_(TEXTS)
        & SessionEvents.payload.contains(written)
        & (text.contains(words) | reason.contains(words))
    )
