"""One turn as a state machine without IO: inputs in, effects out, exactly one ending."""

from collections.abc import Callable

import msgspec

from timothy.conversation import Message
from timothy.eventlog.records import Piece, Row
from timothy.events import (
    AttemptEnded,
    AttemptStarted,
    Done,
    Error,
    Event,
    Failover,
    Incomplete,
    ReasoningDelta,
    Retry,
    Status,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    TurnStarted,
    Usage,
    tokens,
)
from timothy.text import honest
from timothy.turn import inputs, outcome
from timothy.turn.account import Account
from timothy.turn.calls import CallIds, StepCalls, repeats, signatures
from timothy.turn.effects import (
    CancelStream,
    CancelTools,
    Effect,
    Emit,
    Finish,
    Judge,
    RemindCheckpoint,
    Save,
    StartStream,
    Unpark,
)
from timothy.turn.said import Said
from timothy.turn.toolstep import ToolStep


class TurnFacts(msgspec.Struct, frozen=True):
    """What is known of a turn before it starts."""

    session_id: str
    turn_id: str
    message: str
    started_at: str


class Limits(msgspec.Struct, frozen=True):
    """Where a turn is cut: bytes of text and reasoning, requests to a model; seconds until a park is over."""

    text_bytes: int = 32 << 20
    steps: int = 16
    parallel: int = 4
    permission_s: float = 600


class TurnMachine:
    """Feed it inputs, perform the effects in order. After `Finish` it ignores everything.

    `now` is a monotonic clock in seconds.
    """

    def __init__(self, facts: TurnFacts, limits: Limits, now: Callable[[], float]) -> None:
        self.facts = facts
        self.ended = False
        self._limits = limits
        self._now = now
        self._began_at = now()
        self._begun = False
        self._step = 0
        self._streaming = False
        self._incomplete: str | None = None
        self._said = Said()
        self._account = Account()
        self._added: list[Message] = []
        self._step_text: list[str] = []
        self._calls = StepCalls()
        self._tools = ToolStep(limits)
        self._ids = CallIds()
        self._signatures: list[tuple[str, str]] = []
        self._offered = True
        self._reminded = False

    def feed(self, news: inputs.Input) -> list[Effect]:
        """What has to be done now that `news` happened."""
        if self.ended:
            return []
        match news:
            case inputs.Streamed(step=step, event=event):
                return self._streamed(event) if self._streaming and step == self._step else []
            case inputs.Begin():
                return self._begin()
            case inputs.WorkerDied(step=step, message=message):
                dead = self._streaming and step == self._step
                return self._end("turn_aborted", message) if dead else []
            case inputs.CheckpointDue():
                return self._checkpoint()
            case inputs.End(code=code, message=message):
                return self._end(code, message)
            case _:
                return self._after_tools(self._tools.feed(self._calls, news))

    def _begin(self) -> list[Effect]:
        return [] if self._begun else [*self._start(), self._ask_model()]

    def _start(self) -> list[Effect]:
        """The first event of every stream, once."""
        if self._begun:
            return []
        self._begun = True
        facts = self.facts
        return [Emit(TurnStarted(facts.session_id, facts.started_at, facts.message))]

    def _ask_model(self) -> Effect:
        self._step += 1
        self._streaming = True
        self._calls, self._step_text = StepCalls(), []
        self._offered = self._step < self._limits.steps and not repeats(self._signatures)
        return StartStream(self._step, tuple(self._added), self._offered)

    def _streamed(self, event: Event) -> list[Effect]:
        match event:
            case TextDelta(text=text):
                return self._text(text)
            case ReasoningDelta(text=text):
                return self._reasoning(text)
            case ToolCallStarted() | ToolCall():
                return self._called(event)
            case Done(finish_reason=reason):
                return self._done(reason)
            case Error():
                return self._fail(event)
            case Incomplete(reason=reason):
                self._incomplete = reason
                return [Emit(event)]
            case Usage():
                return [Emit(self._account.told(event))]
            case AttemptStarted():
                self._account.opened(event, self._now())
                return []
            case AttemptEnded():
                self._account.closed(event)
                return [Save(piece=self._closing_piece(), attempt=event)]
            case Failover(source=source, to=to, code=code):
                row = Row("failover", {"from": source, "to": to, "code": code})
                return [Save(rows=(row,)), Emit(event)]
            case Status() | Retry():
                return [Emit(event)]
            case _:
                return []  # nothing else belongs between gateway and turn

    def _text(self, text: str) -> list[Effect]:
        if not text:
            return []
        text = honest(text)
        if not self._step_text and self._step > 1 and self._said.needs_break:
            text = "\n\n" + text  # the words of two steps are two paragraphs
        self._step_text.append(text)
        self._said.add_text(text)
        return self._grown(TextDelta(text))

    def _reasoning(self, text: str) -> list[Effect]:
        if not text:
            return []
        text = honest(text)
        self._said.add_reasoning(text)
        return self._grown(ReasoningDelta(text))

    def _grown(self, event: Event) -> list[Effect]:
        self._account.spoke(self._now)
        effects: list[Effect] = [Emit(event)]
        if not self._reminded:
            self._reminded = True
            effects.append(RemindCheckpoint())
        if self._said.bytes >= self._limits.text_bytes:
            self._incomplete = "length"
            effects += [Emit(Incomplete("length")), *self._finish_answer("length")]
        return effects

    def _checkpoint(self) -> list[Effect]:
        self._reminded = False
        if not self._said.unsaved:
            return []
        return [Save(piece=self._said.piece(self._account.provider, self._account.model))]

    def _closing_piece(self) -> Piece | None:
        """Where tools follow, the end of an attempt's text: a piece that nobody speaks after."""
        return self._said.piece(None, None) if self._calls and self._said.bytes else None

    def _called(self, event: ToolCallStarted | ToolCall) -> list[Effect]:
        self._account.spoke(self._now)
        event = self._ids.unique(event, self._step)
        if isinstance(event, ToolCall):
            self._calls.add(event)
        return [Emit(event)]

    def _done(self, reason: str) -> list[Effect]:
        if not self._calls or self._incomplete:
            return self._finish_answer(reason)
        if not self._offered:
            self._incomplete = "max_steps"
            return self._finish_answer(reason, Incomplete("max_steps"))
        self._streaming = False
        calls = tuple(state.call for state in self._calls.states.values())
        self._signatures += signatures(calls)
        return [Judge(calls)]

    def _after_tools(self, effects: list[Effect]) -> list[Effect]:
        """On to the model, once every result of the step is durable and was shown."""
        if self._streaming or not self._calls or not self._calls.all_shown():
            return effects
        self._added.append(Message("assistant", "".join(self._step_text), calls=self._calls.calls()))
        self._added += self._calls.messages()
        return [*effects, self._ask_model()]

    def _end(self, code: str, message: str) -> list[Effect]:
        return [*self._start(), *self._fail(outcome.ended_by_us(code, message))]

    def _fail(self, error: Error) -> list[Effect]:
        return self._finish(error.code, lambda shown: outcome.failed(shown, error))

    def _finish_answer(self, reason: str, *last: Event) -> list[Effect]:
        incomplete = self._incomplete
        return self._finish(None, lambda shown: outcome.answered(shown, reason, incomplete), last)

    def _finish(
        self,
        code: str | None,
        decide: Callable[[outcome.Shown], outcome.Ending],
        last: tuple[Event, ...] = (),
    ) -> list[Effect]:
        self.ended = True
        attempt = self._account.cut(code or "length", self._now())
        parked = [state.request.id for state in self._calls.open_requests() if state.request and state.parked]
        rows, closing = self._tools.abandon(self._calls)
        shown = self._shown()
        ending = decide(shown)
        ids = (self.facts.session_id, self.facts.turn_id)
        order = outcome.order(ids, shown, ending, rows, attempt)
        unpark = [Unpark(permission_id, "cancelled") for permission_id in parked]
        return [CancelStream(), CancelTools(), *unpark, Finish(order, (*closing, *last, ending.terminal))]

    def _shown(self) -> outcome.Shown:
        account = self._account
        return outcome.Shown(
            text=self._said.text,
            reasoning=self._said.reasoning,
            provider=account.provider,
            model=account.model,
            usage=tokens(account.usage),
            cost=account.cost,
            duration_ms=round((self._now() - self._began_at) * 1000),
        )
