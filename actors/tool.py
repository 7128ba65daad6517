"""The workers of tools, leaves that may block: one judges a step's calls, one runs a call."""

import time
from collections.abc import Callable
from typing import Any

import pykka

from actors.base import BaseActor, deliver
from actors.crash import crash_point
from actors.messages import CallsJudged, Run, ToolEnded
from timothy.cancel import Cancel
from timothy.events import ToolCall, ToolStatus
from timothy.permissions import Verdict
from timothy.tools.base import ToolError
from timothy.turn.inputs import Judged

Calls = tuple[ToolCall, ...]
JudgeCalls = Callable[[Calls], tuple[dict[str, Verdict], dict[str, str]]]
RunTool = Callable[[ToolCall, Cancel], str]


class JudgeWorker(BaseActor):
    """Tells the turn what may be done with a step's calls; it may wait for what reads a foreign schema."""

    def __init__(self, turn: pykka.ActorRef[Any], judge: JudgeCalls, calls: Calls) -> None:
        super().__init__()
        self._turn = turn
        self._judge = judge
        self._calls = calls
        self._told = False

    def on_start(self) -> None:
        self.actor_ref.tell(Run())

    def on_receive(self, message: Run) -> None:
        self._tell(Judged(*self._judge(self._calls)))
        self.stop()

    def cleaned_up(self, cause: str | None) -> None:
        if not self._told:
            words = f"The call could not be judged, and was not run: {cause or 'its judge ended early'}"
            self._tell(Judged({}, {call.call_id: words for call in self._calls}))

    def _tell(self, judged: Judged) -> None:
        self._told = True
        deliver(self._turn, CallsJudged(judged))


class ToolWorker(BaseActor):
    """One call. A tool's failure is its result; a broken tool is named to the model too."""

    def __init__(self, turn: pykka.ActorRef[Any], run: RunTool, call: ToolCall, cancel: Cancel) -> None:
        super().__init__()
        self._turn = turn
        self._run = run
        self._call = call
        self._cancel = cancel
        self._began_at = time.monotonic()
        self._told = False

    def on_start(self) -> None:
        self.actor_ref.tell(Run())

    def on_receive(self, message: Run) -> None:
        try:
            self._tell("ok", self._run(self._call, self._cancel))
        except ToolError as error:
            self._tell("error", str(error))
        self.stop()

    def cleaned_up(self, cause: str | None) -> None:
        if not self._told:
            self._tell("error", f"the tool broke: {cause or 'it ended without a result'}")

    def _tell(self, status: ToolStatus, result: str) -> None:
        self._told = True
        crash_point("tool_ended")
        took = round((time.monotonic() - self._began_at) * 1000)
        deliver(self._turn, ToolEnded(self._call.call_id, status, result, took))
