"""A session's title: the first words of its first message, or what a model makes of its first answer."""

import re

from timothy.conversation import Message, ModelRequest
from timothy.eventlog.records import EndTurn

LENGTH = 60
READ_AT_MOST = 2000  # characters of each side: the beginning tells what a conversation is about

_ORDER = (
    "Write a title of two to six words for the conversation below, in its own language."
    " Answer with the title alone.\n\n"
)
_DECORATION = " \t\"'`*_#“”„\u2018\u2019«»."
_LABEL = re.compile(r"(?:title|titel|titre|título)\s*:\s*", re.IGNORECASE)


def first_words(text: str) -> str:
    """The first line of `text` in at most 60 characters, cut between words; "" when there is none."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) <= LENGTH:
        return line
    return line[:LENGTH].rsplit(" ", 1)[0].rstrip(" ,;:.") + " …"


def request(question: str, order: EndTurn, request_id: str, model: str | None) -> ModelRequest | None:
    """What a model is asked for a title of the turn that ended so; None when it gave no answer."""
    answer = order.rows[-1].payload.get("text", "")
    if order.outcome not in ("completed", "incomplete") or not answer.strip():
        return None
    told = f"User: {question[:READ_AT_MOST]}\n\nAssistant: {answer[:READ_AT_MOST]}"
    return ModelRequest(
        messages=(Message("user", _ORDER + told),),
        system="You are a helpful assistant.",
        model=model,
        session_id=order.session_id,
        turn_id=order.turn_id,
        request_id=request_id,
    )


def cleaned(words: str) -> str:
    """The title in a model's answer, without quotes, labels and marks around it; "" when there is none."""
    line = first_words(words).strip(_DECORATION)
    return _LABEL.sub("", line, count=1).strip(_DECORATION) if _LABEL.match(line) else line
