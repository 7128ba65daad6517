"""What a session makes of its turn's end: evidence for a dead one, the last frame, the news."""

import time

from actors.claims import Claim
from actors.messages import Notify, TurnFinished
from timothy.errors import TurnAborted
from timothy.eventlog.records import EndTurn, Written
from timothy.events import Meta, TurnStarted
from timothy.turn import fold
from timothy.turn.replay import Replay


def aborted(claim: Claim, cause: str | None) -> TurnFinished:
    """The end of a turn whose actor is gone: what it had shown becomes the evidence."""
    replay, order = claim.replay, claim.send.order
    if not replay.last_seq:
        replay.append(TurnStarted(order.session_id, order.started_at, claim.send.text))
    took = round((time.monotonic() - claim.began_at) * 1000)
    reason = f"the turn broke inside the server: {cause or 'it stopped'}"
    ids = (order.session_id, order.turn_id)
    end, closing = fold.aborted(*ids, replay.events(), TurnAborted.code, reason, took)
    return TurnFinished(*ids, end, closing)


def plainest(order: EndTurn, reason: str) -> TurnFinished | None:
    """The same end in the plainest row there is; None when it is that already."""
    if order.code == TurnAborted.code and len(order.rows) == 1 and "text" not in order.rows[0].payload:
        return None
    smallest, terminal = fold.plain(order, TurnAborted.code, reason)
    return TurnFinished(order.session_id, order.turn_id, smallest, (terminal,))


def show(replay: Replay, finished: TurnFinished, verdict: Written) -> None:
    """The last events, the terminal, the last frame: the end of every stream of the turn."""
    for event in finished.closing:
        replay.append(event)
    replay.append(_meta(finished.order, verdict))
    replay.close()


def _meta(order: EndTurn, verdict: Written) -> Meta:
    return Meta(
        session_id=order.session_id,
        outcome=order.outcome,
        provider=order.provider,
        model=order.model,
        usage=order.usage,
        cost=order.cost,
        duration_ms=order.rows[-1].payload.get("duration_ms"),
        title=verdict.title,
    )


def news(order: EndTurn, title: str | None) -> Notify:
    """What a person hears who watches nothing."""
    payload = order.rows[-1].payload
    text = payload.get("message") or payload.get("text") or ""
    return Notify(order.outcome, order.session_id, order.turn_id, title, text[:300])
