"""A provider that plays a script: for demos, and for tests that must hold a turn at an exact point.

The script is a JSON file, `script` in the provider's settings (a relative path is in the home):

    {"turns": [[STEP, ...], ...],
     "rules": [{"match": REGEX, "tool_result": REGEX, "steps": [STEP, ...]}, ...]}

The first rule that fits the request answers it, else `turns`. A list of turns is played one per request
that came to it, and its last turn repeats. A rule may have `turns` instead of `steps`.

A rule with `tool_result` fits when the last message is a tool's result and the expression is found in its
text. A rule without it fits only when the last message is not. `match` is looked for in the last user
message. Expressions are Python's, found anywhere, case ignored.

A step has one of these keys:

    {"text": "Hello"}                      a piece of text
    {"text": "a ", "repeat": 50, "delay_s": 0.02}   the same piece 50 times, with a pause before each
    {"reasoning": "Let me see"}            a piece of thinking; repeat and delay_s as above
    {"echo": true}                         the last user message, or the tool's result, as text
    {"call": {"name": "calculate", "input": {}, "call_id": "c1", "malformed": "raw text"}}
                                           a tool call; only the name is needed
    {"status": {"code": "loading_model", "message": "..."}}
    {"usage": [12, 34]}                    input and output tokens
    {"sleep_s": 0.5}                       a pause; a stop ends it
    {"wait_file": "/path/of/a/file"}       a pause until the file exists; a stop ends it
    {"incomplete": "length"}               the answer is cut short (length, content_filter)
    {"error": {"code": "overloaded", "message": "...", "retry_after_s": 3}}   the end, as a failure
    {"cut": true}                          the end without a word
    {"raise": true}                        an exception inside the driver
    {"done": "stop"}                       the end; what happens anyway after the last step
"""

import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import ConfigError, EmptyOutput, ProviderError, Stopped, StreamCut
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
from timothy.stream import terminated

FILE_POLL_S = 0.005


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table of the script: an unknown key in it is an error."""


class CallStep(_Table, frozen=True):
    name: str
    input: dict[str, Any] = {}
    call_id: str = ""
    malformed: str | None = None


class StatusStep(_Table, frozen=True):
    code: str
    message: str = ""


class ErrorStep(_Table, frozen=True):
    code: str
    message: str = "scripted failure"
    retryable: bool | None = None
    retry_after_s: float | None = None
    prompt_tokens: int | None = None
    context_window: int | None = None


class Step(_Table, frozen=True):
    """One thing that the provider does; see the module for the keys."""

    text: str | None = None
    reasoning: str | None = None
    repeat: int = 1
    delay_s: float = 0
    echo: bool = False
    call: CallStep | None = None
    status: StatusStep | None = None
    usage: tuple[int, int] | None = None
    sleep_s: float = 0
    wait_file: str | None = None
    incomplete: Literal["length", "content_filter"] | None = None
    error: ErrorStep | None = None
    cut: bool = False
    fails: bool = msgspec.field(default=False, name="raise")
    done: str | None = None


class Rule(_Table, frozen=True):
    """Which requests are answered how."""

    match: str | None = None
    tool_result: str | None = None
    steps: tuple[Step, ...] = ()
    turns: tuple[tuple[Step, ...], ...] = ()


class Script(_Table, frozen=True):
    """The whole file."""

    rules: tuple[Rule, ...] = ()
    turns: tuple[tuple[Step, ...], ...] = ()


_WORDS = "Hello! This is Timothy's scripted demo: no model runs here. You wrote: "
DEMO = Script(
    rules=(Rule(tool_result="", steps=(Step(text="The tool said: "), Step(echo=True), Step(usage=(8, 8)))),),
    turns=(
        (
            *(Step(text=word + " ", delay_s=0.02) for word in _WORDS.split()),
            Step(echo=True),
            Step(usage=(8, 16)),
        ),
    ),
)


class Driver:
    """Plays the script of its settings, or a small demo when they name none. Raises ConfigError."""

    def __init__(self, settings: ProviderSettings, home: Path) -> None:
        script = _read(home / settings.script) if settings.script else DEMO
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


def _read(path: Path) -> Script:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        raise ConfigError(f"the script {path} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"the script {path}: {error}") from error


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
        while not path.exists() and not cancel.wait(FILE_POLL_S):
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
