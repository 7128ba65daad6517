"""The log as the model reads it: what a new request carries of all that was said and done."""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from timothy.conversation import Call, Image, Message
from timothy.eventlog.records import Mode, Record
from timothy.tools.base import for_model

CONTEXT_KINDS = (
    "user_message",
    "assistant_turn",
    "pending_state",
    "turn_failed",
    "tool_execution",
    "compaction_applied",
)
_WHY = {
    "stopped": "the user stopped it",
    "turn_timeout": "it took too long",
    "interrupted": "the server was interrupted",
    "server_shutdown": "the server was shut down",
    "length": "it reached its length limit",
    "content_filter": "a content filter cut it",
    "max_steps": "it used all its steps",
}


def context(
    records: Sequence[Record],
    user_seq: int,
    mode: Mode = "new",
    continuations: Collection[str] = (),
) -> list[Message]:
    """The messages for a turn that answers the user message at `user_seq`, oldest first.

    A new turn sees everything before it, every partial marked with why it was cut. `again` leaves out the
    partials of earlier turns on the same message, but not the tools that they ran. `continue` ends with
    the last answer as far as it came, so that the model can go on: the text of a turn in `continuations` is
    the rest of the one before it, any other's is a fresh start.
    """
    records = _after_compaction(records)
    before = [record for record in records if record.seq < user_seq]
    same = [record for record in records if record.seq >= user_seq]
    messages = _told(before)
    if mode == "continue":
        return messages + _continued(same, continuations)
    return messages + _told(_without_answers(same))


def _after_compaction(records: Sequence[Record]) -> list[Record]:
    """The newest compaction's summary and what came after what it sums up."""
    newest = next((record for record in reversed(records) if record.kind == "compaction_applied"), None)
    kept = [record for record in records if record.kind != "compaction_applied"]
    if newest is None:
        return kept
    upto = int(newest.payload["upto_seq"])
    return [
        Record(newest.session_id, 0, None, newest.kind, newest.payload, newest.created_at),
        *(record for record in kept if record.seq > upto),
    ]


def _without_answers(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.kind in ("user_message", "tool_execution")]


def _continued(same: list[Record], continuations: Collection[str]) -> list[Message]:
    """The message, the tools, and last the newest partial without any mark."""
    messages = _told(_without_answers(same))
    text = ""
    for record in same:
        if record.kind in ("pending_state", "assistant_turn"):
            text = (text if record.turn_id in continuations else "") + record.payload["text"]
    return [*messages, Message("assistant", text)] if text else messages


def _told(records: Iterable[Record]) -> list[Message]:
    return [message for group in _grouped(records) for message in _messages(group)]


def _grouped(records: Iterable[Record]) -> list[list[Record]]:
    """Neighbouring tool executions of one turn together: the model asked for them at once or in a row."""
    keyed = groupby(
        records,
        key=lambda record: (record.kind, record.turn_id) if record.kind == "tool_execution" else record.seq,
    )
    return [list(group) for _, group in keyed]


def _messages(group: list[Record]) -> list[Message]:
    record = group[0]
    match record.kind:
        case "user_message":
            return [_user(record)]
        case "tool_execution":
            return _tools(group)
        case "compaction_applied":
            return [Message("user", f"(Summary of the conversation so far)\n{record.payload['summary']}")]
        case "assistant_turn" | "pending_state":
            return [Message("assistant", record.payload["text"] + _mark(record))]
        case _:
            return []


def _user(record: Record) -> Message:
    attachments = record.payload.get("attachments") or []
    images = tuple(Image(one["media_type"], one["data"]) for one in attachments if "data" in one)
    texts = [f"\n\n[{one['name']}]\n{one['text']}" for one in attachments if "text" in one]
    return Message("user", record.payload["text"] + "".join(texts), images=images)


def _tools(group: list[Record]) -> list[Message]:
    calls = tuple(
        Call(record.payload["call_id"], record.payload["name"], record.payload["input"]) for record in group
    )
    results = [
        Message("tool", for_model(record.payload["result"]), call_id=record.payload["call_id"])
        for record in group
    ]
    return [Message("assistant", "", calls=calls), *results]


def _mark(record: Record) -> str:
    code = record.payload.get("incomplete") or record.payload.get("code")
    if not code:
        return ""
    return f"\n\n[This answer was cut short: {_WHY.get(code, code)}]"
