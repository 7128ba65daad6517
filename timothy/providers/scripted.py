"""A provider that plays a script: for demos, and for tests that must hold a turn at an exact point.

The script's format is told in timothy.providers.script.
"""

import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import EmptyOutput, ProviderError, Stopped, StreamCut
from timothy.events import (
    Content,
    Done,
    Error,
    Event,
    Incomplete,
    ReasoningDelta,
    Status,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
)
from timothy.providers.pace import Pace
from timothy.providers.script import DEMO, ErrorStep, Rule, Step, read
from timothy.stream import terminated

FILE_LOOK_S = 0.005


class Driver:
    """Plays the script of its settings, or a small demo when they name none. Raises ConfigError."""

    def __init__(self, settings: ProviderSettings, home: Path) -> None:
        script = read(home / settings.script) if settings.script else DEMO
        self._rules = (*script.rules, *([Rule(turns=script.turns)] if script.turns else []))
        self._fallback = len(script.rules)  # from here on, a rule takes tool results too
        self._played = [0] * len(self._rules)
        self._lock = threading.Lock()

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """One turn of the script; see timothy.providers.base."""
        return terminated(_whole(_play(self._choose(request), request, cancel)), cut=StreamCut)

    def close(self) -> None:
        """Nothing is held."""

    def _choose(self, request: ModelRequest) -> tuple[Step, ...]:
        for number, rule in enumerate(self._rules):
            if number >= self._fallback or _fits(rule, request):
                return self._next_turn(number, rule)
        return (Step(error=ErrorStep("provider_error", "the script has no answer to this request")),)

    def _next_turn(self, number: int, rule: Rule) -> tuple[Step, ...]:
        turns = rule.turns or (rule.steps,)
        with self._lock:
            played = self._played[number]
            self._played[number] += 1
        return turns[min(played, len(turns) - 1)]


def _fits(rule: Rule, request: ModelRequest) -> bool:
    result = _tool_result(request)
    if (rule.tool_result is None) != (result is None):
        return False
    return _found(rule.tool_result, result) and _found(rule.match, _question(request))


def _found(expression: str | None, text: str | None) -> bool:
    return expression is None or re.search(expression, text or "", re.IGNORECASE) is not None


def _tool_result(request: ModelRequest) -> str | None:
    last = request.messages[-1] if request.messages else None
    return last.text if last is not None and last.role == "tool" else None


def _question(request: ModelRequest) -> str:
    return next((message.text for message in reversed(request.messages) if message.role == "user"), "")


def _whole(events: Iterator[Event]) -> Iterator[Event]:
    """`events`, but an end without any content is a failure, as with every provider."""
    content = False
    for event in events:
        content = content or isinstance(event, Content)
        if isinstance(event, Done) and not content:
            raise EmptyOutput("the script ended without text, reasoning or a tool call")
        yield event


def _play(steps: tuple[Step, ...], request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
    pace = Pace()
    reason = "stop"
    for step in steps:
        for event in _perform(step, request, cancel):
            pace.worked()
            _check(cancel)
            yield event
            reason = _reason(event, reason)
        if step.cut:
            return
    _check(cancel)
    yield Done(reason)


def _reason(event: Event, reason: str) -> str:
    if isinstance(event, Incomplete):
        return event.reason
    return "tool_calls" if isinstance(event, ToolCall) and reason == "stop" else reason


def _perform(step: Step, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
    _wait(step, cancel)
    if step.fails:
        raise RuntimeError("the script raises here")
    for _ in range(step.repeat):
        if step.delay_s:
            cancel.wait(step.delay_s)
        yield from _content(step, request)
    yield from _news(step)


def _wait(step: Step, cancel: Cancel) -> None:
    if step.sleep_s:
        cancel.wait(step.sleep_s)
    if step.wait_file is not None:
        path = Path(step.wait_file)
        while not path.exists() and not cancel.wait(FILE_LOOK_S):
            pass
    _check(cancel)


def _content(step: Step, request: ModelRequest) -> Iterator[Event]:
    if step.text:
        yield TextDelta(step.text)
    if step.reasoning:
        yield ReasoningDelta(step.reasoning)
    if step.echo:
        yield TextDelta(_tool_result(request) or _question(request))
    if step.call is not None:
        call_id = step.call.call_id or f"call_{uuid.uuid4().hex[:12]}"
        yield ToolCallStarted(call_id, step.call.name)
        yield ToolCall(call_id, step.call.name, step.call.input, step.call.malformed)


def _news(step: Step) -> Iterator[Event]:
    if step.status is not None:
        yield Status(step.status.code, step.status.message)
    if step.usage is not None:
        yield Usage(*step.usage, cached_tokens=None)
    if step.incomplete is not None:
        yield Incomplete(step.incomplete)
    if step.error is not None:
        yield _error(step.error)
    if step.done is not None:
        yield Done(step.done)


def _error(step: ErrorStep) -> Error:
    known = {kind.code: kind.retryable for kind in _family(ProviderError)}
    retryable = known.get(step.code, True) if step.retryable is None else step.retryable
    return Error(
        step.code, step.message, retryable, step.retry_after_s, step.prompt_tokens, step.context_window
    )


def _family(kind: type[ProviderError]) -> Iterator[type[ProviderError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


def _check(cancel: Cancel) -> None:
    if cancel.cancelled:
        raise Stopped("stopped")
