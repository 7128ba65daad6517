"""The format of a script that the scripted provider plays.

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

from pathlib import Path
from typing import Any, Literal

import msgspec

from timothy.errors import ConfigError


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


def read(path: Path) -> Script:
    """The script in `path`. Raises ConfigError with the place of what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        raise ConfigError(f"the script {path} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"the script {path}: {error}") from error
