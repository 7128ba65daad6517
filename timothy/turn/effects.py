"""What the turn machine asks its shell to do."""

import msgspec

from timothy.conversation import Message
from timothy.eventlog.records import EndTurn, Grant, Piece, Row, ToolStart
from timothy.events import AttemptEnded, Event, PermissionRequest, ToolCall


class Effect(msgspec.Struct, frozen=True):
    """Something to be done outside; effects are performed in order."""


class Emit(Effect, frozen=True):
    """Show the event to the viewers."""

    event: Event


class StartStream(Effect, frozen=True):
    """Ask the model: the session's context, then `added`, what this turn said and did so far."""

    step: int
    added: tuple[Message, ...]
    offer_tools: bool


class CancelStream(Effect, frozen=True):
    """End the running stream worker, if there is one; its later news is ignored."""


class StartTool(Effect, frozen=True):
    """Run the call in a worker."""

    call: ToolCall


class CancelTools(Effect, frozen=True):
    """End all tool workers; their later news is ignored."""


class Judge(Effect, frozen=True):
    """Ask the policy about the calls; its answer comes back as `Judged`."""

    calls: tuple[ToolCall, ...]


class Save(Effect, frozen=True):
    """Append to the log. With `acknowledge`, the machine hears `Saved(acknowledge)` once it is durable."""

    rows: tuple[Row, ...] = ()
    piece: Piece | None = None
    attempt: AttemptEnded | None = None
    tool_start: ToolStart | None = None
    tool_end: str | None = None
    grant: Grant | None = None
    acknowledge: str | None = None


class Park(Effect, frozen=True):
    """A request is open: list it as pending, bring `Answered(id, "timeout")` when its time is over."""

    request: PermissionRequest


class Unpark(Effect, frozen=True):
    """The request is not open any more: this was decided."""

    id: str
    decision: str


class RemindCheckpoint(Effect, frozen=True):
    """Bring `CheckpointDue` after the checkpoint interval."""


class Finish(Effect, frozen=True):
    """The last effect: append the evidence; when it is durable, show `closing` (terminal last) and meta."""

    order: EndTurn
    closing: tuple[Event, ...]
