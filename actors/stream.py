"""The stream worker: a leaf that may block; it reads the context, asks the gateway, tells its turn."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pykka

from actors.base import BaseActor, deliver
from actors.crash import crash_point
from actors.messages import ContextRead, Run, Streamed, WorkerFailed
from timothy.cancel import Cancel
from timothy.conversation import ModelRequest
from timothy.gateway.base import Gateway

YIELD_S = 0.004


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One request to the model: `read_context` is None when the turn has it already."""

    step: int
    request: ModelRequest
    read_context: Callable[[], ContextRead] | None


class StreamWorker(BaseActor):
    """One request to the gateway; every event goes to the turn as it comes."""

    def __init__(self, turn: pykka.ActorRef[Any], gateway: Gateway, job: StreamJob, cancel: Cancel) -> None:
        super().__init__()
        self._turn = turn
        self._gateway = gateway
        self._job = job
        self._cancel = cancel

    def on_start(self) -> None:
        self.actor_ref.tell(Run())

    def on_receive(self, message: Run) -> None:
        request = self._with_context()
        crash_point("before_dial")
        if not self._cancel.cancelled:
            self._pipe(request)
        self.stop()

    def cleaned_up(self, cause: str | None) -> None:
        if cause is not None:
            deliver(self._turn, WorkerFailed(self._job.step, cause))

    def _with_context(self) -> ModelRequest:
        job = self._job
        if job.read_context is None:
            return job.request
        context = job.read_context()
        deliver(self._turn, context)
        messages = (*context.messages, *job.request.messages)
        return _replace_messages(job.request, messages)

    def _pipe(self, request: ModelRequest) -> None:
        """Every event to the turn; under gevent a source that never blocks lets others run now and then."""
        step = self._job.step
        events = self._gateway.stream(request, self._cancel)
        before = worked_since = time.monotonic()
        for event in events:
            now = time.monotonic()
            if now - before > YIELD_S / 4:
                worked_since = now  # the read waited, so others had their turn
            elif now - worked_since > YIELD_S:
                time.sleep(0)
                worked_since = now = time.monotonic()
            before = now
            if not deliver(self._turn, Streamed(step, event)):
                self._cancel.cancel()
                return


def _replace_messages(request: ModelRequest, messages: tuple[Any, ...]) -> ModelRequest:
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return ModelRequest(**{**fields, "messages": messages})
