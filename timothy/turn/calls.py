"""The tool calls of one step, from the model's request to a saved result."""

from collections.abc import Iterable
from typing import Any

import msgspec

from timothy.conversation import Call, Message
from timothy.eventlog.records import Row
from timothy.events import PermissionRequest, ToolCall, ToolCallStarted, ToolResult, ToolStatus
from timothy.permissions import Verdict
from timothy.tools.base import for_model, preview


class CallState:
    """One call: judged, maybe asked for, run, recorded, shown."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.verdict: Verdict | None = None
        self.request: PermissionRequest | None = None
        self.decision: str | None = None
        self.parked = False
        self.resolved = False
        self.running = False
        self.started = False
        self.result: ToolEnd | None = None
        self.shown = False

    @property
    def allowed(self) -> bool:
        """True when the policy, or a person whose answer is durable, lets the call run."""
        if self.verdict is None or self.verdict.kind == "deny":
            return False
        return self.verdict.kind == "allow" or (self.resolved and self.decision in ("once", "session"))

    @property
    def effectful(self) -> bool:
        """True when running the call may change something: its start must be durable first."""
        return self.verdict is None or self.verdict.danger != "read"


class ToolEnd(msgspec.Struct, frozen=True):
    """How a call ended; `duration_ms` is None when it never ran."""

    status: ToolStatus
    result: str
    duration_ms: int | None


class StepCalls:
    """The calls of one step, in the model's order."""

    def __init__(self) -> None:
        self.states: dict[str, CallState] = {}

    def add(self, call: ToolCall) -> None:
        """The model asked for this call."""
        self.states[call.call_id] = CallState(call)

    def __bool__(self) -> bool:
        return bool(self.states)

    def all_shown(self) -> bool:
        """True when every call's result is durable and was shown."""
        return all(state.shown for state in self.states.values())

    def by_request(self, permission_id: str) -> CallState | None:
        """The call that this permission request asks for."""
        asked = (
            state
            for state in self.states.values()
            if state.request is not None and state.request.id == permission_id
        )
        return next(asked, None)

    def open_requests(self) -> list[CallState]:
        """Calls that wait for a person."""
        return [
            state for state in self.states.values() if state.request is not None and state.decision is None
        ]

    def unresolved_requests(self) -> list[CallState]:
        """Calls whose request was shown, but not yet how it ended."""
        return [state for state in self.states.values() if state.parked and not state.resolved]

    def running(self) -> int:
        """How many calls run, or are about to."""
        return sum(state.running and state.result is None for state in self.states.values())

    def messages(self) -> list[Message]:
        """The results as the model hears them, in the order of its calls."""
        return [
            Message("tool", for_model(state.result.result), call_id=call_id)
            for call_id, state in self.states.items()
            if state.result is not None
        ]

    def calls(self) -> tuple[Call, ...]:
        """The calls as part of the assistant's message."""
        return tuple(
            Call(state.call.call_id, state.call.name, state.call.input) for state in self.states.values()
        )


class CallIds:
    """Makes the ids of a turn's calls different: some models count from 0 in every answer."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._begun: dict[tuple[int, str], str] = {}

    def unique(self, event: ToolCallStarted | ToolCall, step: int) -> ToolCallStarted | ToolCall:
        """The event with its call's own id, the same from the call's start to its end."""
        key = (step, event.call_id)
        if key not in self._begun:
            self._begun[key] = self._fresh(event.call_id, step)
        call_id = self._begun[key]
        if isinstance(event, ToolCall):
            del self._begun[key]  # the call is complete: the same id again is another call
        return msgspec.structs.replace(event, call_id=call_id)

    def _fresh(self, call_id: str, step: int) -> str:
        while not call_id or call_id in self._used:
            call_id = f"{call_id}.{step}"
        self._used.add(call_id)
        return call_id


def execution(state: CallState) -> Row:
    """The call's row in the log; the result is whole."""
    assert state.result is not None
    payload: dict[str, Any] = {"call_id": state.call.call_id, "name": state.call.name}
    payload |= {"input": state.call.input, "status": state.result.status, "result": state.result.result}
    return Row("tool_execution", {**payload, "duration_ms": state.result.duration_ms})


def tool_result(state: CallState) -> ToolResult:
    """The call's end as viewers see it, with a preview."""
    assert state.result is not None
    text, truncated = preview(state.result.result)
    call, end = state.call, state.result
    return ToolResult(call.call_id, call.name, end.status, text, end.duration_ms or 0, truncated)


def repeats(signatures: list[tuple[str, str]]) -> bool:
    """True when the last three calls are the same."""
    return len(signatures) >= 3 and len(set(signatures[-3:])) == 1


def signatures(calls: Iterable[ToolCall]) -> list[tuple[str, str]]:
    """What makes two calls the same: name and arguments."""
    return [(call.name, msgspec.json.encode(call.input, order="sorted").decode()) for call in calls]
