"""The durable vocabulary: a row of the log, and the orders that make the writer write."""

from typing import Any, Literal

import msgspec

from timothy.events import AttemptEnded, Tokens

Kind = Literal[
    "session_started",
    "user_message",
    "assistant_turn",
    "pending_state",
    "turn_failed",
    "tool_execution",
    "permission_request",
    "permission_resolved",
    "failover",
    "compaction_applied",
    "title_set",
]
Mode = Literal["new", "again", "continue"]
Payload = dict[str, Any]


class Record(msgspec.Struct, frozen=True):
    """One row of a session's log; `seq` counts 1, 2, 3 ... in the session."""

    session_id: str
    seq: int
    turn_id: str | None
    kind: str
    payload: Payload
    created_at: str


class Row(msgspec.Struct, frozen=True):
    """A row to be written: the writer gives it its seq."""

    kind: Kind
    payload: Payload


class Piece(msgspec.Struct, frozen=True):
    """Text and reasoning of a running turn since its last piece; `number` counts 1, 2, 3 ... in the turn.

    One without a provider ends an attempt: it is in the ledger, and nobody speaks until the next piece.
    """

    number: int
    text: str
    reasoning: str
    provider: str | None
    model: str | None


class ToolStart(msgspec.Struct, frozen=True):
    """A call that may have an effect is about to run."""

    call_id: str
    name: str
    input: Payload


class Grant(msgspec.Struct, frozen=True):
    """A person allowed `tool` with `subject` in this session until `expires_at`."""

    tool: str
    subject: str
    expires_at: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Something for the writer. A repeated order with the same `append_id` changes nothing."""

    append_id: str
    session_id: str


class CreateSession(Order, frozen=True):
    """A new session with its `session_started` row."""

    title: str | None


class CopySession(Order, frozen=True):
    """A new session with a copy of another's log up to and with `seq`."""

    source_id: str
    seq: int
    title: str | None


class UpdateSession(Order, frozen=True):
    """New title, archived mark, switched-off tools; None leaves a field as it is."""

    title: str | None = None
    archived: bool | None = None
    tools_off: tuple[str, ...] | None = None
    only_untitled: bool = False


class DeleteSession(Order, frozen=True):
    """The session and all that belongs to it go."""


class RevokeGrant(Order, frozen=True):
    """A "for this session" answer does not hold any more; `session_id` is not looked at."""

    grant_id: int


class ChangeSettings(Order, frozen=True):
    """Set each key to its value; one whose value is None is unset. `session_id` is not looked at."""

    values: dict[str, str | None]


class ImportSession(Order, frozen=True):
    """A session with these records, as another Timothy exported them."""

    title: str | None
    records: tuple[Record, ...]


class BeginTurn(Order, frozen=True):
    """Turn row and user message in one transaction, if what was read before still holds.

    A retry has no `payload`: it answers the message at `user_seq`, if `last_turn_id` is still the last.
    """

    turn_id: str
    mode: Mode
    started_at: str
    payload: Payload | None = None
    user_seq: int = 0
    last_turn_id: str | None = None
    idempotency_key: str | None = None
    model: str | None = None
    request_id: str | None = None


class AppendRows(Order, frozen=True):
    """What a running turn leaves on its way: rows, a piece of text, ledger rows, tool starts."""

    turn_id: str
    rows: tuple[Row, ...] = ()
    piece: Piece | None = None
    attempt: AttemptEnded | None = None
    tool_start: ToolStart | None = None
    tool_end: str | None = None
    grant: Grant | None = None


class EndTurn(Order, frozen=True):
    """The turn's last rows, the evidence last of all, and the turn's row with how it ended."""

    turn_id: str
    rows: tuple[Row, ...]
    outcome: str
    code: str | None
    message: str | None
    usage: Tokens | None
    cost: float | None
    provider: str | None
    model: str | None
    attempt: AttemptEnded | None = None


AnyOrder = (
    CreateSession
    | CopySession
    | UpdateSession
    | DeleteSession
    | RevokeGrant
    | ChangeSettings
    | ImportSession
    | BeginTurn
    | AppendRows
    | EndTurn
)


class Written(msgspec.Struct, frozen=True):
    """The order is durable; `seq` is its last row, `title` the session's title at that moment."""

    seq: int = 0
    title: str | None = None


class Refused(msgspec.Struct, frozen=True):
    """The order left nothing; `code` is an error's code, `turn_id` a turn that it speaks of."""

    code: str
    message: str
    turn_id: str | None = None


Verdict = Written | Refused
