"""What the API's JSON answers look like to a Python caller; fields it does not know are passed over."""

from typing import Any

import msgspec

from timothy.events import Tokens
from timothy.gateway.base import ModelRow, ProviderRow


class Session(msgspec.Struct, frozen=True):
    """One conversation. `title` is None until there is one; times are RFC 3339 in UTC."""

    id: str
    title: str | None
    created_at: str
    updated_at: str | None = None
    archived: bool = False
    turn_active: bool = False


class SessionList(msgspec.Struct, frozen=True):
    """One page of sessions; `next_cursor` is None on the last one."""

    sessions: list[Session]
    next_cursor: str | None = None


class Running(msgspec.Struct, frozen=True):
    """The turn that runs in a session, and the seq of the last frame it has sent."""

    id: str
    state: str
    started_at: str
    last_seq: int


class Page(msgspec.Struct, frozen=True):
    """A session with the newest items of its transcript, oldest first. `more`: older ones exist."""

    session: Session
    items: list[dict[str, Any]]
    more: bool
    turn_active: bool
    turn: Running | None = None


class LogRow(msgspec.Struct, frozen=True):
    """A row of the session's log; `turn_id` is None outside a turn."""

    seq: int
    turn_id: str | None
    kind: str
    payload: dict[str, Any]
    created_at: str


class LogPage(msgspec.Struct, frozen=True):
    """One page of the log."""

    events: list[LogRow]


class Attempt(msgspec.Struct, frozen=True):
    """One attempt at one provider, as the ledger has it. None is unknown, never 0."""

    provider: str
    model: str | None
    status: str
    code: str | None
    started_at: str
    duration_ms: int | None = None
    first_token_ms: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


class Turn(msgspec.Struct, frozen=True):
    """A turn and how it ended: `outcome` is None until `state` is "ended"."""

    id: str
    session_id: str
    state: str
    outcome: str | None
    code: str | None
    message: str | None
    started_at: str
    ended_at: str | None
    usage: Tokens | None = None
    cost: float | None = None
    provider: str | None = None
    model: str | None = None
    attempts: list[Attempt] = []


class Accepted(msgspec.Struct, frozen=True):
    """A send that was taken without a stream: the turn is durable and runs."""

    session_id: str
    turn_id: str


class StopAnswer(msgspec.Struct, frozen=True):
    """`outcome` once the end is durable; until then None, and `state` is "stopping"."""

    turn_id: str
    outcome: str | None = None
    state: str | None = None


class Permission(msgspec.Struct, frozen=True):
    """A tool call that waits for a person's answer."""

    id: str
    session_id: str
    session_title: str | None
    turn_id: str
    tool: str
    input: dict[str, Any]
    danger: str
    rationale: str
    requested_at: str
    expires_at: str


class PermissionList(msgspec.Struct, frozen=True):
    """Every open permission request."""

    pending: list[Permission]


class ModelList(msgspec.Struct, frozen=True):
    """What can be asked for by name."""

    models: list[ModelRow]


class ProviderList(msgspec.Struct, frozen=True):
    """The chain's entries, in order."""

    providers: list[ProviderRow]


class UsageReport(msgspec.Struct, frozen=True):
    """Sums of the ledger, by `group`. A price that is unknown is in no cost, but in `unpriced_attempts`."""

    group: str
    rows: list[dict[str, Any]]
    total: dict[str, Any]


class Health(msgspec.Struct, frozen=True):
    """`status` is "ok" or "degraded"; `checks` says why."""

    status: str
    checks: dict[str, Any] = {}
