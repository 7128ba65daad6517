"""The tools of a step: what may run, what must be asked for first, what is recorded before it is shown."""

import uuid
from typing import Protocol

from timothy.eventlog.records import Grant, Row, ToolStart
from timothy.events import Event, PermissionRequest, PermissionResolved
from timothy.moment import in_future
from timothy.permissions import GRANT_S
from timothy.turn import inputs
from timothy.turn.calls import CallState, StepCalls, ToolEnd, execution, tool_result
from timothy.turn.effects import Effect, Emit, Park, Save, StartTool, Unpark

_REFUSALS = {
    "deny": ToolEnd("denied", "The user said no to this call.", None),
    "timeout": ToolEnd(
        "cancelled", "Nobody answered the permission request in time; it was not refused.", None
    ),
}


class ToolLimits(Protocol):
    """How many tools run at once, and how many seconds a person has to answer."""

    @property
    def parallel(self) -> int: ...
    @property
    def permission_s(self) -> float: ...


class ToolStep:
    """Takes the calls of one step from `Judged` to shown results."""

    def __init__(self, limits: ToolLimits) -> None:
        self._limits = limits

    def feed(self, calls: StepCalls, news: inputs.Input) -> list[Effect]:
        """What has to be done now that `news` happened to `calls`."""
        match news:
            case inputs.Judged():
                return self._judged(calls, news)
            case inputs.Answered(id=permission_id, decision=decision):
                return self._answered(calls, permission_id, decision)
            case inputs.ToolEnded(call_id=call_id):
                state = calls.states.get(call_id)
                if state is None or not state.started or state.result is not None:
                    return []
                end = ToolEnd(news.status, news.result, news.duration_ms)
                return [*_ended(state, end), *self._run_more(calls)]
            case inputs.Saved(acknowledge=acknowledge):
                return self._saved(calls, acknowledge)
            case _:
                return []

    def abandon(self, calls: StepCalls) -> tuple[list[Row], list[Event]]:
        """The turn is over: the rows and the last events of everything that is still open."""
        rows: list[Row] = []
        events: list[Event] = []
        for state in calls.open_requests():
            assert state.request is not None
            rows.append(Row("permission_resolved", {"id": state.request.id, "decision": "cancelled"}))
        events += [_resolution(state) for state in calls.unresolved_requests()]
        for state in calls.states.values():
            if state.result is None:
                state.result = _cut(state)
                rows.append(execution(state))
            if not state.shown:
                events.append(tool_result(state))
        return rows, events

    def _judged(self, calls: StepCalls, news: inputs.Judged) -> list[Effect]:
        effects: list[Effect] = []
        for call_id, state in calls.states.items():
            if state.verdict is not None or state.result is not None:
                continue
            if call_id in news.faults:
                effects += _ended(state, ToolEnd("error", news.faults[call_id], None))
                continue
            state.verdict = news.verdicts.get(call_id)
            if state.verdict is None:
                continue
            if state.verdict.kind == "deny":
                effects += _ended(state, ToolEnd("denied", f"Not allowed: {state.verdict.reason}.", None))
            elif state.verdict.kind == "ask":
                effects.append(self._request(state))
        return [*effects, *self._run_more(calls)]

    def _request(self, state: CallState) -> Effect:
        assert state.verdict is not None
        verdict, call = state.verdict, state.call
        state.request = PermissionRequest(
            id=str(uuid.uuid4()),
            call_id=call.call_id,
            tool=call.name,
            input=call.input,
            danger=verdict.danger,
            rationale=verdict.rationale,
            expires_at=in_future(self._limits.permission_s),
        )
        names = PermissionRequest.__struct_fields__
        row = Row("permission_request", {name: getattr(state.request, name) for name in names})
        return Save(rows=(row,), acknowledge=f"ask {call.call_id}")

    def _answered(self, calls: StepCalls, permission_id: str, decision: str) -> list[Effect]:
        state = calls.by_request(permission_id)
        if state is None or not state.parked or state.decision is not None:
            return []
        if decision != "session":
            return _decided(state, decision)
        assert state.verdict is not None
        grant = Grant(state.call.name, state.verdict.subject, in_future(GRANT_S))
        covered = [other for other in calls.open_requests() if other is not state and _covers(grant, other)]
        also = [effect for other in covered for effect in _decided(other, decision)]
        return [*_decided(state, decision, grant), *also]

    def _saved(self, calls: StepCalls, acknowledge: str) -> list[Effect]:
        what, _, call_id = acknowledge.partition(" ")
        state = calls.states.get(call_id)
        if state is None:
            return []
        match what:
            case "ask" if state.request is not None and not state.parked:
                state.parked = True
                return [Emit(state.request), Park(state.request)]
            case "answer" if state.decision is not None and not state.resolved:
                return self._resolved(calls, state)
            case "start" if state.running and not state.started:
                state.started = True
                return [StartTool(state.call)]
            case "end" if state.result is not None and not state.shown:
                state.shown = True
                return [Emit(tool_result(state))]
            case _:
                return []  # heard before

    def _resolved(self, calls: StepCalls, state: CallState) -> list[Effect]:
        shown = Emit(_resolution(state))
        state.resolved = True
        refusal = _REFUSALS.get(state.decision or "deny")
        if refusal is not None:
            return [shown, *_ended(state, refusal)]
        return [shown, *self._run_more(calls)]

    def _run_more(self, calls: StepCalls) -> list[Effect]:
        effects: list[Effect] = []
        for state in calls.states.values():
            if calls.running() >= self._limits.parallel:
                break
            if state.allowed and not state.running and state.result is None:
                state.running = True
                effects.append(_start(state))
        return effects


def _decided(state: CallState, decision: str, grant: Grant | None = None) -> list[Effect]:
    assert state.request is not None
    state.decision = decision
    row = Row("permission_resolved", {"id": state.request.id, "decision": decision})
    save = Save(rows=(row,), grant=grant, acknowledge=f"answer {state.call.call_id}")
    return [Unpark(state.request.id, decision), save]


def _covers(grant: Grant, other: CallState) -> bool:
    """True when the grant answers what this parked call asks for, too."""
    verdict = other.verdict
    same = verdict is not None and not verdict.always and verdict.subject == grant.subject
    return same and other.parked and other.call.name == grant.tool


def _resolution(state: CallState) -> PermissionResolved:
    assert state.request is not None
    return PermissionResolved(state.request.id, state.decision or "cancelled")  # type: ignore[arg-type]


def _start(state: CallState) -> Effect:
    call = state.call
    if not state.effectful:
        state.started = True
        return StartTool(call)
    start = ToolStart(call.call_id, call.name, call.input)
    return Save(tool_start=start, acknowledge=f"start {call.call_id}")


def _ended(state: CallState, end: ToolEnd) -> list[Effect]:
    """Record the result; it is shown once it is durable."""
    state.result = end
    call_id = state.call.call_id
    return [Save(rows=(execution(state),), tool_end=call_id, acknowledge=f"end {call_id}")]


def _cut(state: CallState) -> ToolEnd:
    if not state.running:
        return ToolEnd("cancelled", "not run: the turn ended first", None)
    words = "interrupted, may have run" if state.effectful else "interrupted"
    return ToolEnd("cancelled", words, None)
