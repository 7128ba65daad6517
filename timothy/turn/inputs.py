"""What the turn machine is fed."""

import msgspec

from timothy.events import Event, ToolStatus
from timothy.permissions import Verdict


class Input(msgspec.Struct, frozen=True):
    """Something that happened to the turn."""


class Begin(Input, frozen=True):
    """The turn is durable: start."""


class Streamed(Input, frozen=True):
    """The stream worker of `step` got an event."""

    step: int
    event: Event


class WorkerDied(Input, frozen=True):
    """The stream worker of `step` ended without a terminal event."""

    step: int
    message: str


class Judged(Input, frozen=True):
    """The policy's verdict on each call, by call_id; the argument error of a bad one in `faults`."""

    verdicts: dict[str, Verdict]
    faults: dict[str, str]


class ToolEnded(Input, frozen=True):
    """A tool worker ended."""

    call_id: str
    status: ToolStatus
    result: str
    duration_ms: int


class Saved(Input, frozen=True):
    """What was saved with this acknowledgement is durable."""

    acknowledge: str


class Answered(Input, frozen=True):
    """A permission request's answer: once, session, deny or timeout."""

    id: str
    decision: str


class CheckpointDue(Input, frozen=True):
    """The checkpoint interval is over."""


class End(Input, frozen=True):
    """Stop, ceiling, shutdown or a death: the turn ends now with this code."""

    code: str
    message: str
