"""Every message between actors, grouped by who receives it: orders are verbs, news is in the past tense."""

from dataclasses import dataclass
from typing import Any

import msgspec

from actors.base import Target
from timothy.conversation import Message
from timothy.eventlog.records import AnyOrder, BeginTurn, EndTurn, Verdict
from timothy.events import Event, Status, ToolStatus
from timothy.turn.inputs import Judged
from timothy.turn.replay import Replay

# --- Clock -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remind:
    """Tell `target` the message at the monotonic time `at`, in seconds."""

    at: float
    target: Target
    message: Any


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline of the clock is due."""


# --- PersistenceActor ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Make the order durable and tell `answer_to` so; after `deadline` (monotonic) refuse it instead."""

    order: AnyOrder
    answer_to: Target | None = None
    token: str = ""
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """Commit what is pending."""


# --- Sessions, which forwards by session_id, and SessionActor --------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Claim the session and begin the turn; `answer_to` hears Accepted, Busy or NotBegun."""

    session_id: str
    order: BeginTurn
    text: str
    deadline: float
    answer_to: Target


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn `turn_id`, or whichever runs; `answer_to` hears TurnOver, NoTurn or OtherTurn."""

    session_id: str
    turn_id: str | None
    code: str
    reason: str
    answer_to: Target | None


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Have the session for itself while the order is written; `answer_to` hears Wrote or Busy."""

    session_id: str
    order: AnyOrder
    deadline: float
    answer_to: Target


@dataclass(frozen=True, slots=True)
class Wrote:
    """The writer's verdict on an order."""

    session_id: str
    turn_id: str | None
    token: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StorageRetrying:
    """The storage fails; what was told to the writer is kept and tried again."""

    session_id: str
    turn_id: str | None
    reason: str

    def status(self) -> Status:
        """As the turn's viewers see it."""
        return Status("storage_retrying", f"saving fails and is tried again: {self.reason}")


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn came to its end: make the evidence durable, then show `closing`."""

    session_id: str
    turn_id: str
    order: EndTurn
    closing: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class TurnDied:
    """A TurnActor ended; `cause` is None when it was done."""

    session_id: str
    turn_id: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class Idle:
    """To Sessions: the session's actor has nothing to do after `handled` messages."""

    session_id: str
    handled: int


@dataclass(frozen=True, slots=True)
class SessionDied:
    """To Sessions: a SessionActor broke; its claim needs a successor."""

    session_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """To a new SessionActor: take over the claim that its predecessor left."""

    session_id: str


# --- TurnActor -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Go:
    """The turn is durable: start."""


@dataclass(frozen=True, slots=True)
class EndNow:
    """Stop, ceiling or shutdown: the turn ends with this code."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ContextRead:
    """A stream worker read the session's context, grants and switched-off tools: the next one need not."""

    messages: tuple[Message, ...]
    grants: frozenset[tuple[str, str]]
    tools_off: frozenset[str]


class Streamed(msgspec.Struct, frozen=True, gc=False):
    """The stream worker of `step` got an event. A struct, as there is one for every token."""

    step: int
    event: Event


@dataclass(frozen=True, slots=True)
class Compacted:
    """A stream worker summed up old history: its row for the log."""

    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """The stream worker of `step` broke."""

    step: int
    cause: str


@dataclass(frozen=True, slots=True)
class CallsJudged:
    """The judge of a step's calls ended."""

    judged: Judged


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool worker ended."""

    call_id: str
    status: ToolStatus
    result: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class AnswerPermission:
    """A person's answer; `answer_to` hears Answered."""

    permission_id: str
    decision: str
    answer_to: Target


@dataclass(frozen=True, slots=True)
class PermissionOver:
    """Nobody answered in time."""

    permission_id: str


@dataclass(frozen=True, slots=True)
class CheckpointDue:
    """The checkpoint interval is over."""


# --- StreamWorker and ToolWorker -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """To itself: do the one thing it was started for."""


# --- Notifier --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notify:
    """A turn ended (`event` is its outcome) or waits for a person (`waiting`); `text` says it in words.

    A `test` is about no turn.
    """

    event: str
    session_id: str | None
    turn_id: str | None
    title: str | None
    text: str


# --- ViewerActor -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Woken:
    """The replay grew, or closed."""


@dataclass(frozen=True, slots=True)
class Ping:
    """The stream was silent for long: send a heartbeat."""


# --- Answers to web/ -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """The turn is durable and runs."""

    turn_id: str
    replay: Replay


@dataclass(frozen=True, slots=True)
class Busy:
    """Another turn holds the claim."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The turn left nothing; `code` and `message` say why."""

    code: str
    message: str
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnOver:
    """The turn's evidence is durable."""

    turn_id: str
    outcome: str


@dataclass(frozen=True, slots=True)
class NoTurn:
    """Nothing runs in the session."""


@dataclass(frozen=True, slots=True)
class OtherTurn:
    """Another turn than the named one runs."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The request's decision; `first` when it was this answer that decided."""

    decision: str
    first: bool
