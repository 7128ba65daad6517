"""One running turn: a shell that feeds the pure machine and performs its effects."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykka._envelope import Envelope

from actors.base import BaseActor, Target, deliver
from actors.claims import Claim, Pending
from actors.context import ContextReader
from actors.crash import crash_point
from actors.merging import Held
from actors.messages import (
    AnswerPermission,
    CallsJudged,
    CheckpointDue,
    Compacted,
    ContextRead,
    EndNow,
    Go,
    Notify,
    PermissionOver,
    Remind,
    StorageRetrying,
    Streamed,
    ToolEnded,
    TurnDied,
    TurnFinished,
    WorkerFailed,
    Write,
    Wrote,
)
from actors.parking import Parking
from actors.toolbox import Toolbox
from actors.workers import Workers
from timothy.eventlog.records import AppendRows, Refused, Row
from timothy.events import ReasoningDelta, TextDelta
from timothy.gateway.base import Gateway
from timothy.turn import effects, inputs
from timothy.turn.machine import Limits, TurnFacts, TurnMachine


@dataclass(slots=True)
class TurnParts:
    """What every TurnActor works with. Times in seconds."""

    pending: Pending
    persistence: Target
    sessions: Target
    clock: Target
    gateway: Gateway
    toolbox: Toolbox
    context: ContextReader
    notify: Callable[[Notify, bool], None]
    limits: Limits
    ceiling_s: float
    checkpoint_s: float
    system_prompt: str


class TurnActor(BaseActor):
    """Performs one turn. Its last act is to tell its session how the turn ended."""

    def __init__(self, claim: Claim, parts: TurnParts) -> None:
        super().__init__()
        self._claim = claim
        self._replay = claim.replay
        self._parts = parts
        order = claim.send.order
        facts = TurnFacts(order.session_id, order.turn_id, claim.send.text, order.started_at)
        self._machine = TurnMachine(facts, parts.limits, time.monotonic)
        self._held = Held()
        self._context: ContextRead | None = None
        self._grants: set[tuple[str, str]] = set()
        limit = parts.limits.permission_s
        self._workers = Workers(
            self.actor_ref, claim, parts.gateway, parts.toolbox, parts.context, parts.system_prompt
        )
        self._parking = Parking(self.actor_ref, claim.replay, parts.pending, parts.clock, parts.notify, limit)
        self._saves = 0
        self._deltas = 0
        self._done = False

    def on_receive(self, message: Any) -> None:
        if isinstance(message, Streamed) and isinstance(message.event, (TextDelta, ReasoningDelta)):
            if self._held or not self.actor_inbox.empty():
                self._hold(message)
            else:
                self._show(inputs.Streamed(message.step, message.event))
            return
        self._show_held()
        self._handle(message)

    def cleaned_up(self, cause: str | None) -> None:
        """The workers end with the turn; a turn that did not finish is reported to its session."""
        self._workers.cancel_all()
        self._parking.close()
        if not self._done:
            deliver(self._parts.sessions, TurnDied(self._replay.session_id, self._replay.turn_id, cause))
        while not self.actor_inbox.empty():
            self._too_late(self.actor_inbox.get())

    def _hold(self, message: Streamed) -> None:
        """Deltas that pile up while this actor is busy become one event; alone, one goes on at once."""
        if not self._held.fits(message):
            self._show_held()
        self._held.add(message)
        if self._held.full or self.actor_inbox.empty():
            self._show_held()

    def _show_held(self) -> None:
        if self._held:
            self._show(self._held.take())

    def _show(self, delta: inputs.Streamed) -> None:
        self._feed(delta)
        self._count_delta()

    def _count_delta(self) -> None:
        self._deltas += 1
        if self._deltas == 1:
            crash_point("first_delta")
        elif self._deltas > 10:
            crash_point("in_text")

    def _handle(self, message: Any) -> None:
        match message:
            case Streamed(step=step, event=event):
                self._feed(inputs.Streamed(step, event))
            case Go():
                self._parts.clock.tell(self._reminder(self._parts.ceiling_s, self._ceiling()))
                self._feed(inputs.Begin())
            case EndNow(code=code, reason=reason):
                self._feed(inputs.End(code, reason))
            case ContextRead():
                self._context = message
                self._grants |= message.grants
            case Compacted(payload=payload):
                self._save(effects.Save(rows=(Row("compaction_applied", payload),)))
            case WorkerFailed(step=step, cause=cause):
                self._feed(inputs.WorkerDied(step, f"the turn broke inside the server: {cause}"))
            case CallsJudged(judged=judged):
                self._feed(judged)
            case ToolEnded():
                ended = inputs.ToolEnded(message.call_id, message.status, message.result, message.duration_ms)
                self._feed(ended)
            case AnswerPermission(permission_id=permission_id, decision=decision):
                if self._machine.ended:
                    self._parking.refuse(message)
                elif self._parking.takes(message):
                    self._feed(inputs.Answered(permission_id, decision))
            case PermissionOver(permission_id=permission_id):
                if self._parking.times_out(permission_id):
                    self._feed(inputs.Answered(permission_id, "timeout"))
            case CheckpointDue():
                self._feed(inputs.CheckpointDue())
            case Wrote():
                self._wrote(message)
            case StorageRetrying():
                self._storage_retrying(message)
            case _:
                raise TypeError(f"a turn does not understand {message!r}")

    def _tools_off(self) -> frozenset[str]:
        return self._context.tools_off if self._context else frozenset()

    def _ceiling(self) -> EndNow:
        minutes = self._parts.ceiling_s / 60
        return EndNow("turn_timeout", f"the turn reached its ceiling of {minutes:g} minutes (turn.ceiling_s)")

    def _reminder(self, seconds: float, message: Any) -> Remind:
        return Remind(time.monotonic() + seconds, self.actor_ref, message)

    def _feed(self, news: inputs.Input) -> None:
        for effect in self._machine.feed(news):
            self._perform(effect)

    def _perform(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Emit(event=event):
                self._replay.append(event)
            case effects.Save():
                self._save(effect)
            case effects.StartStream():
                self._workers.start_stream(effect, self._context)
            case effects.StartTool():
                self._workers.start_tool(effect)
            case effects.Judge(calls=calls):
                self._workers.judge(calls, frozenset(self._grants), self._tools_off())
            case effects.RemindCheckpoint():
                self._parts.clock.tell(Remind(self._checkpoint_at(), self.actor_ref, CheckpointDue()))
            case effects.Park(request=request):
                self._parking.park(request)
            case effects.Unpark(id=permission_id, decision=decision):
                self._parking.unpark(permission_id, decision)
            case effects.CancelStream():
                self._workers.cancel_stream()
            case effects.CancelTools():
                self._workers.cancel_all()
            case effects.Finish():
                self._finish(effect)
            case _:
                raise TypeError(f"a turn cannot perform {effect!r}")

    def _checkpoint_at(self) -> float:
        """A little before the interval is over, at the same moment as other turns: one commit for all."""
        interval = self._parts.checkpoint_s
        apart = interval / 4
        return (time.monotonic() + interval) // apart * apart

    def _save(self, save: effects.Save) -> None:
        self._saves += 1
        if save.grant is not None:
            self._grants.add((save.grant.tool, save.grant.subject))
        order = AppendRows(
            append_id=f"{self._replay.turn_id}/{self._saves}",
            session_id=self._replay.session_id,
            turn_id=self._replay.turn_id,
            rows=save.rows,
            piece=save.piece,
            attempt=save.attempt,
            tool_start=save.tool_start,
            tool_end=save.tool_end,
            grant=save.grant,
        )
        self._parts.persistence.tell(Write(order, self.actor_ref, save.acknowledge or ""))

    def _wrote(self, news: Wrote) -> None:
        if isinstance(news.verdict, Refused):
            self._feed(inputs.End("turn_aborted", f"the log refused a row: {news.verdict.message}"))
        elif news.token:
            if news.token.startswith("start "):
                crash_point("tool_start_durable")
            self._feed(inputs.Saved(news.token))
            what, _, call_id = news.token.partition(" ")
            if what == "answer":
                self._parking.confirm(call_id)

    def _too_late(self, envelope: Envelope[Any]) -> None:
        """What meets the end of the turn and still has to be heard: by who answers, or by the session."""
        if isinstance(envelope.message, AnswerPermission):
            self._parking.refuse(envelope.message)
        elif isinstance(envelope.message, StorageRetrying):
            deliver(self._parts.sessions, envelope.message)
        if envelope.reply_to is not None:  # pykka's own order to stop
            envelope.reply_to.set(None)

    def _storage_retrying(self, message: StorageRetrying) -> None:
        """Show it; once the turn has told its end, only its session may still show something."""
        if self._done:
            deliver(self._parts.sessions, message)
        else:
            self._replay.append(message.status())

    def _finish(self, effect: effects.Finish) -> None:
        self._parking.confirm_all()
        ids = (self._replay.session_id, self._replay.turn_id)
        self._parts.sessions.tell(TurnFinished(*ids, effect.order, effect.closing))
        self._done = True
        self.stop()
