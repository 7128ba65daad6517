"""When history outgrows the model's window: what is summed up, and what is asked for that."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from timothy.conversation import Message
from timothy.eventlog.context import context
from timothy.eventlog.records import Payload, Record
from timothy.tools.base import for_model

CHARACTERS_PER_TOKEN = 3.5  # an estimate on the safe side; the provider's own count is the truth
FULL = 0.7  # of the window: the rest is for the answer
SHARE_FOR_SUMMARY = 0.5  # of the window: what the text to be summed up may take

ORDER = (
    "Summarise the conversation below for the assistant that goes on with it: facts, names, decisions,"
    " open questions, what was tried. Use short plain sentences. Do not answer it.\n\n"
)


class Plan(msgspec.Struct, frozen=True):
    """The messages that a summary replaces, all of them up to and with the row `upto_seq`."""

    older: tuple[Message, ...]
    upto_seq: int


def estimate(messages: Iterable[Message]) -> int:
    """About how many tokens the messages take."""
    return int(sum(map(_characters, messages)) / CHARACTERS_PER_TOKEN)


def overfull(messages: Iterable[Message], window: int | None) -> bool:
    """True when the messages leave too little of a window of that many tokens for an answer."""
    return window is not None and estimate(messages) > window * FULL


def plan(records: Sequence[Record], user_seq: int) -> Plan | None:
    """The older half, cut before a user's message; None when there is nothing before the one to answer."""
    cuts = [
        record.seq
        for record in records
        if record.kind == "user_message" and records[0].seq < record.seq <= user_seq
    ]
    if not cuts:
        return None
    half = estimate(context(records, user_seq)) / 2
    # halving, since each look sums everything up to it, and a long session has many cuts
    place = bisect_left(cuts, half, key=lambda seq: estimate(_before(records, seq)))
    cut = cuts[min(place, len(cuts) - 1)]
    return Plan(tuple(_before(records, cut)), cut - 1)


def prompt(older: Iterable[Message], window: int) -> str:
    """What to ask for a summary, short enough for the window."""
    limit = int(window * SHARE_FOR_SUMMARY * CHARACTERS_PER_TOKEN)
    return ORDER + for_model("\n\n".join(f"{message.role}: {message.text}" for message in older), limit)


def applied(chosen: Plan, summary: str) -> Payload:
    """The payload of the log's `compaction_applied` row."""
    return {"summary": summary, "upto_seq": chosen.upto_seq, "messages": len(chosen.older)}


def _before(records: Sequence[Record], seq: int) -> list[Message]:
    earlier = [record for record in records if record.seq < seq or record.kind == "compaction_applied"]
    return context(earlier, seq)


def _characters(message: Message) -> int:
    calls = sum(len(call.name) + len(str(call.input)) for call in message.calls)
    return len(message.text) + calls + 16
