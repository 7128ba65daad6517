"""The stream worker: a leaf that may block; it reads the context, asks the gateway, tells its turn."""

import time
from dataclasses import dataclass
from typing import Any

import msgspec
import pykka

from actors.base import BaseActor, deliver
from actors.claims import Claim
from actors.context import ContextReader
from actors.crash import crash_point
from actors.messages import ContextRead, Run, Streamed, WorkerFailed
from actors.toolbox import Toolbox
from timothy.cancel import Cancel
from timothy.conversation import ModelRequest
from timothy.errors import ContextOverflow
from timothy.events import Error, Event, ReasoningDelta, TextDelta, ToolCall, ToolCallStarted
from timothy.gateway.base import Gateway
from timothy.stream import TERMINAL

YIELD_S = 0.002
BREATH_S = 1e-6  # not 0: under gevent that runs what is ready, but looks at no timer
CONTENT = (TextDelta, ReasoningDelta, ToolCallStarted, ToolCall)


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One request to the model: `known` is the context if the turn has read it already."""

    step: int
    request: ModelRequest
    claim: Claim
    reader: ContextReader
    known: ContextRead | None
    toolbox: Toolbox | None


class StreamWorker(BaseActor):
    """One request to the gateway; every event goes to the turn as it comes."""

    def __init__(self, turn: pykka.ActorRef[Any], gateway: Gateway, job: StreamJob, cancel: Cancel) -> None:
        super().__init__()
        self._turn = turn
        self._gateway = gateway
        self._job = job
        self._cancel = cancel
        self._ended = False

    def on_start(self) -> None:
        self.actor_ref.tell(Run())

    def on_receive(self, message: Run) -> None:
        request = self._with_context()
        crash_point("before_dial")
        if not self._cancel.cancelled:
            overflow = self._pipe(request)
            if overflow is not None:
                self._shorten(overflow)
        self.stop()

    def cleaned_up(self, cause: str | None) -> None:
        if not self._ended and not self._cancel.cancelled:
            cause = cause or "the gateway's stream ended without saying so"
            deliver(self._turn, WorkerFailed(self._job.step, cause))

    def _with_context(self) -> ModelRequest:
        job = self._job
        if job.known is not None:
            return self._under(job.known)
        return self._under(self._read())

    def _read(self) -> ContextRead:
        context = self._job.reader.read(self._job.claim, self._cancel, self._show, self._tell)
        self._tell(context)
        return context

    def _under(self, context: ContextRead) -> ModelRequest:
        """The request with the session's context, and the tools that it may use."""
        job = self._job
        messages = (*context.messages, *job.request.messages)
        tools = job.toolbox.offered(context.tools_off) if job.toolbox else ()
        return msgspec.structs.replace(job.request, messages=messages, tools=tools)

    def _shorten(self, overflow: Error) -> None:
        """The provider found the prompt too long: once more with older history summed up, if there is any."""
        job = self._job
        window = overflow.context_window
        shorter = job.reader.after_overflow(job.claim, window, self._cancel, self._show, self._tell)
        if shorter is None or self._cancel.cancelled:
            self._show(overflow)
        else:
            self._tell(shorter)
            self._pipe(self._under(shorter), may_shorten=False)

    def _show(self, event: Event) -> None:
        self._ended = isinstance(event, TERMINAL)
        self._tell(Streamed(self._job.step, event))

    def _tell(self, message: Any) -> bool:
        return deliver(self._turn, message)

    def _pipe(self, request: ModelRequest, *, may_shorten: bool = True) -> Error | None:
        """Every event to the turn; under gevent a source that never blocks lets others run now and then.

        A context overflow is kept back and returned, if a shorter context may be tried instead.
        """
        step = self._job.step
        may_shorten = may_shorten and self._job.known is None
        events = self._gateway.stream(request, self._cancel)
        before = worked_since = time.monotonic()
        for event in events:
            now = time.monotonic()
            if now - before > YIELD_S / 4:
                worked_since = now  # the read waited, so others had their turn
            elif now - worked_since > YIELD_S:
                time.sleep(BREATH_S)
                worked_since = now = time.monotonic()
            before = now
            if may_shorten:
                if isinstance(event, Error) and event.code == ContextOverflow.code:
                    return event
                may_shorten = not isinstance(event, CONTENT)
            if not deliver(self._turn, Streamed(step, event)):
                self._cancel.cancel()
                break
            self._ended = isinstance(event, TERMINAL)
        return None
