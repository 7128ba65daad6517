"""A turn seen from its frames alone: what a dead turn had shown becomes its evidence."""

from collections.abc import Iterable

from timothy.eventlog.records import EndTurn, Row
from timothy.events import (
    Event,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    tokens,
)
from timothy.turn import outcome

_WORDS = "interrupted, may have run"


def aborted(
    session_id: str, turn_id: str, events: Iterable[Event], code: str, message: str, duration_ms: int | None
) -> tuple[EndTurn, tuple[Event, ...]]:
    """The evidence, and the closing events, of a turn that died after it had shown `events`.

    The text is never shorter than what was shown. What was open is closed as cancelled.
    """
    events = list(events)
    shown = outcome.Shown(
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        reasoning="".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        provider=None,
        model=None,
        usage=tokens(next((event for event in reversed(events) if isinstance(event, Usage)), None)),
        cost=None,
        duration_ms=duration_ms,
    )
    ending = outcome.failed(shown, outcome.ended_by_us(code, message))
    rows, closing = _left_open(events)
    order = outcome.order((session_id, turn_id), shown, ending, rows)
    return order, (*closing, ending.terminal)


def plain(order: EndTurn, code: str, message: str) -> tuple[EndTurn, Event]:
    """The smallest evidence there is, for when the log refused the real one."""
    nothing = outcome.Shown(
        text="", reasoning="", provider=None, model=None, usage=None, cost=None, duration_ms=None
    )
    ending = outcome.failed(nothing, outcome.ended_by_us(code, message))
    return outcome.order((order.session_id, order.turn_id), nothing, ending), ending.terminal


def _left_open(events: list[Event]) -> tuple[list[Row], list[Event]]:
    resolved = {event.id for event in events if isinstance(event, PermissionResolved)}
    ended = {event.call_id for event in events if isinstance(event, ToolResult)}
    asked = [event for event in events if isinstance(event, PermissionRequest) and event.id not in resolved]
    called = [event for event in events if isinstance(event, ToolCall) and event.call_id not in ended]
    rows = [Row("permission_resolved", {"id": event.id, "decision": "cancelled"}) for event in asked]
    rows += [_cancelled(call) for call in called]
    closing: list[Event] = [PermissionResolved(event.id, "cancelled") for event in asked]
    closing += [ToolResult(event.call_id, event.name, "cancelled", _WORDS, 0, False) for event in called]
    return rows, closing


def _cancelled(call: ToolCall) -> Row:
    payload = {"call_id": call.call_id, "name": call.name, "input": call.input}
    return Row("tool_execution", {**payload, "status": "cancelled", "result": _WORDS, "duration_ms": None})
