"""The vocabulary of every stream: what one turn says while it runs.

An event is a frozen, tagged struct. It is encoded once, by `frame()`, and the same bytes go to every
viewer. `seq` and `turn_id` belong to the frame, not to the event: the turn's replay gives them out.

The frame is one server-sent event (WHATWG HTML, "Server-sent events"): `id: TURN_ID:SEQ`, `data: JSON`,
a blank line.
"""

from typing import Any, Literal

import msgspec

from timothy.text import to_json

Decision = Literal["once", "session", "deny", "timeout", "cancelled"]
ToolStatus = Literal["ok", "error", "denied", "cancelled"]
IncompleteReason = Literal["length", "content_filter", "max_steps"]
AttemptStatus = Literal["ok", "incomplete", "error", "stopped"]


def _tag(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, tag_field="type", tag=_tag, omit_defaults=True):
    """Anything a stream can say. A field without a default is always on the wire, null included."""


class TurnStarted(Event, frozen=True):
    """Always seq 1; a client that sees it starts the turn's view anew."""

    session_id: str
    started_at: str
    message: str


class TextDelta(Event, frozen=True):
    """A piece of the answer."""

    text: str


class ReasoningDelta(Event, frozen=True):
    """A piece of the model's thinking."""

    text: str


class ToolCallStarted(Event, frozen=True):
    """The model begins a call; its arguments are still coming."""

    call_id: str
    name: str


class ToolCall(Event, frozen=True):
    """A call with its complete arguments. `malformed` holds the raw text when it was no JSON object."""

    call_id: str
    name: str
    input: dict[str, Any]
    malformed: str | None = None


class PermissionRequest(Event, frozen=True):
    """The turn is parked until a person answers, or `expires_at` passes."""

    id: str
    call_id: str
    tool: str
    input: dict[str, Any]
    danger: str
    rationale: str
    expires_at: str


class PermissionResolved(Event, frozen=True):
    """How a permission request ended."""

    id: str
    decision: Decision


class ToolResult(Event, frozen=True):
    """How a call ended, with a preview of its result."""

    call_id: str
    name: str
    status: ToolStatus
    preview: str
    duration_ms: int
    truncated: bool


class Status(Event, frozen=True):
    """What the turn does while it has nothing to show."""

    code: str
    message: str


class Retry(Event, frozen=True):
    """The same provider is asked again after `delay_ms`; `attempt` is the number of the coming try."""

    attempt: int
    delay_ms: int
    code: str


class Failover(Event, frozen=True):
    """The chain goes on from one entry to the next; `code` says why."""

    source: str = msgspec.field(name="from")
    to: str
    code: str


class Usage(Event, frozen=True):
    """Tokens: from a driver, of one request so far; from a turn, the sum of its requests. None is unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


class Tokens(msgspec.Struct, frozen=True):
    """A `Usage` as a part of something else."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


class Incomplete(Event, frozen=True):
    """The answer was cut short by the model; a later `done` does not erase it."""

    reason: IncompleteReason


class Done(Event, frozen=True):
    """Terminal: the stream ended as it should."""

    finish_reason: str


class Error(Event, frozen=True):
    """Terminal: the stream failed; `message` keeps the provider's own words. The rest is for the chain."""

    code: str
    message: str
    retryable: bool
    retry_after_s: float | None = None
    prompt_tokens: int | None = None
    context_window: int | None = None


class Meta(Event, frozen=True):
    """The last frame of a turn's stream. `duration_ms` is monotonic; `cost` is null when unknown."""

    session_id: str
    outcome: str
    provider: str | None
    model: str | None
    usage: Tokens | None
    cost: float | None
    duration_ms: int | None
    title: str | None


class AttemptStarted(Event, frozen=True):
    """From the gateway to the turn only: the chain dials `provider`. Never shown to a viewer."""

    provider: str
    model: str
    started_at: str


class AttemptEnded(Event, frozen=True):
    """From the gateway to the turn only: one row for the ledger. Times in ms; None is unknown."""

    provider: str
    model: str
    status: AttemptStatus
    code: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost: float | None
    first_token_ms: int | None
    duration_ms: int
    started_at: str


def tokens(usage: Usage | None) -> Tokens | None:
    """The numbers of `usage` alone."""
    return None if usage is None else Tokens(usage.input_tokens, usage.output_tokens, usage.cached_tokens)


Terminal = Done | Error
Content = TextDelta | ReasoningDelta | ToolCallStarted | ToolCall
AnyEvent = (
    TurnStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCall
    | PermissionRequest
    | PermissionResolved
    | ToolResult
    | Status
    | Retry
    | Failover
    | Usage
    | Incomplete
    | Done
    | Error
    | Meta
    | AttemptStarted
    | AttemptEnded
)

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)

# Line ends to some parsers (Python's str.splitlines, JavaScript before 2019), so they travel escaped.
_LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def encode(event: Event) -> bytes:
    """The event as one line of JSON, UTF-8, with U+2028, U+2029 and U+0085 escaped."""
    line = to_json(event)
    if line.isascii():
        return line
    for raw, escaped in _LINE_ENDS:
        line = line.replace(raw, escaped)
    return line


def frame(event: Event, turn_id: str, seq: int) -> bytes:
    """The event as one server-sent event, numbered `seq` (from 1) within the turn `turn_id`."""
    return b'id: %b:%d\ndata: {"seq":%d,"turn_id":"%b",%b\n\n' % (
        turn_id.encode(),
        seq,
        seq,
        turn_id.encode(),
        encode(event)[1:],
    )


def decode(data: bytes | str) -> AnyEvent:
    """The event in one `data:` line. Raises msgspec.MsgspecError when it is none of the vocabulary."""
    return _decoder.decode(data)
