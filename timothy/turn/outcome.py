"""How a turn ends: its evidence row and its terminal event, decided in one place."""

import uuid
from collections.abc import Iterable
from typing import Any

import msgspec

from timothy import errors
from timothy.eventlog.records import EndTurn, Row
from timothy.events import AttemptEnded, Done, Error, Tokens

_OUTCOMES = {"stopped": "stopped", "server_shutdown": "interrupted", "interrupted": "interrupted"}


class Ending(msgspec.Struct, frozen=True):
    """The evidence, the terminal event, and the outcome that the turn's row and `meta` carry."""

    evidence: Row
    terminal: Done | Error
    outcome: str


class Shown(msgspec.Struct, frozen=True):
    """What the turn had said and who said it, when it ended. `duration_ms` is None after a crash."""

    text: str
    reasoning: str
    provider: str | None
    model: str | None
    usage: Tokens | None
    cost: float | None
    duration_ms: int | None


def answered(shown: Shown, finish_reason: str, incomplete: str | None) -> Ending:
    """The model came to its own end, `incomplete` names why it was cut short, if it was."""
    payload = {"text": shown.text, **_common(shown), "finish_reason": finish_reason}
    if incomplete:
        payload["incomplete"] = incomplete
    evidence = Row("assistant_turn", {**payload, **_price(shown)})
    return Ending(evidence, Done(finish_reason), "incomplete" if incomplete else "completed")


def failed(shown: Shown, error: Error) -> Ending:
    """Something else ended the turn: with text a final partial, without a named failure."""
    cause = {"code": error.code, "message": error.message, **_common(shown)}
    if shown.text:
        evidence = Row("pending_state", {"text": shown.text, "final": True, **cause, **_price(shown)})
    else:
        evidence = Row("turn_failed", {**cause, "retryable": error.retryable})
    terminal = Error(error.code, error.message, error.retryable)
    return Ending(evidence, terminal, _OUTCOMES.get(error.code, "failed"))


def order(
    ids: tuple[str, str],
    shown: Shown,
    ending: Ending,
    rows: Iterable[Row] = (),
    attempt: AttemptEnded | None = None,
) -> EndTurn:
    """How the log is told: `rows` before the evidence; `ids` are those of the session and of the turn."""
    session_id, turn_id = ids
    error = ending.terminal if isinstance(ending.terminal, Error) else None
    return EndTurn(
        append_id=str(uuid.uuid4()),
        session_id=session_id,
        turn_id=turn_id,
        rows=(*rows, ending.evidence),
        outcome=ending.outcome,
        code=None if error is None else error.code,
        message=None if error is None else error.message,
        usage=shown.usage,
        cost=shown.cost,
        provider=shown.provider,
        model=shown.model,
        attempt=attempt,
    )


def ended_by_us(code: str, message: str) -> Error:
    """The terminal event of a stop, a ceiling, a shutdown or a death inside Timothy."""
    kinds = {kind.code: kind for kind in errors.TurnError.__subclasses__()}
    return Error(code, message, kinds.get(code, errors.TurnAborted).retryable)


def _common(shown: Shown) -> dict[str, Any]:
    common: dict[str, Any] = {"provider": shown.provider, "model": shown.model}
    common["duration_ms"] = shown.duration_ms
    if shown.reasoning:
        common["reasoning"] = shown.reasoning
    return common


def _price(shown: Shown) -> dict[str, Any]:
    usage = None if shown.usage is None else msgspec.structs.asdict(shown.usage)
    return {"usage": usage, "cost": shown.cost}
