"""One session: the claim and the stop, one at a time, answered from memory."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pykka
from pykka._actor import ActorInbox
from pykka._envelope import Envelope

from actors import ending
from actors.base import BaseActor, Inbox, Target, deliver
from actors.claims import Claim, Claims
from actors.crash import crash_point
from actors.exclusive import TOKEN, ExclusiveOrders
from actors.messages import (
    Accepted,
    Adopt,
    Busy,
    EndNow,
    Exclusive,
    Idle,
    NotBegun,
    Notify,
    NoTurn,
    OtherTurn,
    Send,
    SessionDied,
    Stop,
    StorageRetrying,
    TurnDied,
    TurnFinished,
    TurnOver,
    Write,
    Wrote,
)
from actors.title import Naming
from timothy.errors import ServerShutdown
from timothy.eventlog.records import EndTurn, Refused
from timothy.turn.replay import Replay

logger = logging.getLogger(__name__)

ADOPTIONS = 5


@dataclass(slots=True)
class SessionParts:
    """What every SessionActor works with."""

    claims: Claims
    persistence: Target
    sessions: Target
    start_turn: Callable[[Claim], pykka.ActorRef[Any]]
    notify: Callable[[Notify, bool], None]
    naming: Naming
    accepting: Callable[[], bool]
    give_up: Callable[[str], None]


class SessionActor(BaseActor):
    """Serialises claims and stops of one session. It never reads or waits for the database."""

    def __init__(self, session_id: str, parts: SessionParts) -> None:
        super().__init__()
        self._session_id = session_id
        self._parts = parts
        self._exclusives = ExclusiveOrders(session_id, parts.claims, parts.persistence, parts.sessions)
        self._handled = 0

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return Inbox()

    def on_receive(self, message: Any) -> None:
        self._handled += 1
        match message:
            case Send():
                self._send(message)
            case Stop():
                self._stop_turn(message)
            case Exclusive():
                self._exclusive(message)
            case Wrote():
                self._wrote(message)
            case TurnFinished():
                self._finished(message)
            case TurnDied(turn_id=turn_id, cause=cause):
                self._died(turn_id, cause)
            case StorageRetrying():
                self._storage_retrying(message)
            case Adopt():
                self._adopt()
            case _:
                raise TypeError(f"a session does not understand {message!r}")
        self._rest_if_idle()

    def cleaned_up(self, cause: str | None) -> None:
        if cause is not None:
            deliver(self._parts.sessions, SessionDied(self._session_id, cause))
            inbox: Any = self.actor_inbox
            inbox.bequeath(self._leave)

    def _leave(self, envelope: Envelope[Any]) -> None:
        """To the successor, by the door; pykka's own order to stop has done its work."""
        if hasattr(envelope.message, "session_id"):
            deliver(self._parts.sessions, envelope.message)

    @property
    def _claim(self) -> Claim | None:
        return self._parts.claims.get(self._session_id)

    def _send(self, send: Send) -> None:
        crash_point("before_claim")
        claim = self._claim
        if claim is not None and not claim.begun and claim.is_of(send):
            claim.repeats.append(send.answer_to)  # its turn is on its way: no 409 from itself
        elif claim is not None:
            deliver(send.answer_to, Busy(claim.replay.turn_id))
        elif self._exclusives.waits(send):
            pass
        elif not self._parts.accepting():
            deliver(send.answer_to, NotBegun(ServerShutdown.code, "the server is shutting down"))
        elif send.deadline < time.monotonic():
            deliver(send.answer_to, NotBegun("storage_unavailable", "the server is too busy: try again"))
        else:
            self._take_claim(send)

    def _take_claim(self, send: Send) -> None:
        self._parts.naming.cancel(self._session_id)
        replay = Replay(self._session_id, send.order.turn_id, send.order.started_at)
        self._parts.claims.take(self._session_id, Claim(send, replay, time.monotonic()))
        crash_point("after_claim")
        self._write(Write(send.order, self._parts.sessions, "begin", send.deadline))

    def _write(self, write: Write) -> None:
        self._parts.persistence.tell(write)

    def _wrote(self, news: Wrote) -> None:
        claim = self._claim
        if news.token.startswith(TOKEN):
            self._exclusives.over(news)
        elif claim is not None and claim.replay.turn_id == news.turn_id:
            if news.token == "begin" and not claim.begun:
                self._begun(claim, news.verdict)
            elif news.token == "evidence":
                self._evidence_written(claim, news.verdict)

    def _begun(self, claim: Claim, verdict: Any) -> None:
        if isinstance(verdict, Refused):
            self._release(claim)
            code = "storage_unavailable" if verdict.code == "append_refused" else verdict.code
            for waiting in (claim.send.answer_to, *claim.repeats):
                deliver(waiting, NotBegun(code, verdict.message, verdict.turn_id))
            return
        claim.begun = True
        claim.user_seq = verdict.seq
        crash_point("after_begun")
        if not self._parts.accepting() and claim.end_early is None:  # claimed as the shutdown began
            claim.end_early = EndNow(ServerShutdown.code, "the server was shut down")
        logger.info("%s begins", claim.label)
        claim.turn = self._parts.start_turn(claim)
        self._tell_begun(claim)

    def _tell_begun(self, claim: Claim) -> None:
        deliver(claim.send.answer_to, Accepted(claim.replay.turn_id, claim.replay))
        for waiting in claim.repeats:
            deliver(waiting, Busy(claim.replay.turn_id))

    def _stop_turn(self, stop: Stop) -> None:
        claim = self._claim
        if claim is None:
            deliver(stop.answer_to, NoTurn())
        elif stop.turn_id not in (None, claim.replay.turn_id):
            deliver(stop.answer_to, OtherTurn(claim.replay.turn_id))
        else:
            self._end_turn(claim, stop)

    def _end_turn(self, claim: Claim, stop: Stop) -> None:
        if stop.answer_to is not None:
            claim.waiting_stops.append(stop.answer_to)
        claim.replay.state = "stopping"
        if claim.finished is None:
            order = EndNow(stop.code, stop.reason)
            if not deliver(claim.turn, order):
                claim.end_early = order

    def _finished(self, news: TurnFinished) -> None:
        claim = self._claim
        if claim is None or claim.replay.turn_id != news.turn_id or claim.finished is not None:
            return  # the first end of a turn is its end
        claim.finished = news
        crash_point("before_evidence")
        self._write(Write(news.order, self._parts.sessions, "evidence"))

    def _died(self, turn_id: str, cause: str | None) -> None:
        """The turn's actor is gone; if it left no end, what it had shown becomes the evidence."""
        claim = self._claim
        if claim is None or claim.replay.turn_id != turn_id or claim.finished is not None:
            return
        logger.error("%s died without saying so: %s", claim.label, cause)
        self._finished(ending.aborted(claim, cause))

    def _evidence_written(self, claim: Claim, verdict: Any) -> None:
        assert claim.finished is not None
        crash_point("after_evidence")
        if isinstance(verdict, Refused):
            self._evidence_refused(claim, claim.finished.order, verdict)
            return
        order = claim.finished.order
        watched = claim.replay.watched  # before the end: who has read that goes
        crash_point("before_release")
        self._release(claim)
        ending.show(claim.replay, claim.finished, verdict)
        for waiting in claim.waiting_stops:
            deliver(waiting, TurnOver(order.turn_id, order.outcome))
        logger.info("%s ended: %s", claim.label, order.code or order.outcome)
        if verdict.title is None:
            self._parts.naming.begin(claim)
        self._parts.notify(ending.news(order, verdict.title), watched)

    def _evidence_refused(self, claim: Claim, order: EndTurn, verdict: Refused) -> None:
        """The log took the turn but not its evidence: say so in the plainest row there is."""
        logger.error("the evidence of %s was refused: %s", claim.label, verdict.message)
        plainest = ending.plainest(order, f"the log refused: {verdict.message}")
        if plainest is None:
            raise RuntimeError(f"the log refuses even a plain failure: {verdict.message}")
        claim.finished = None
        self._finished(plainest)

    def _release(self, claim: Claim) -> None:
        """Free before anyone can see the end: the next send never gets a 409 from this turn."""
        self._parts.claims.release(self._session_id)
        if not claim.begun:
            claim.replay.close()
            for waiting in claim.waiting_stops:
                deliver(waiting, NoTurn())

    def _storage_retrying(self, news: StorageRetrying) -> None:
        """Shown by whoever writes the replay: the turn while it runs, its session from the turn's end on."""
        claim = self._claim
        if claim is None or claim.replay.turn_id != news.turn_id:
            return
        if claim.finished is None:
            deliver(claim.turn, news)
        else:
            claim.replay.append(news.status())

    def _exclusive(self, message: Exclusive) -> None:
        claim = self._claim
        if claim is not None:
            deliver(message.answer_to, Busy(claim.replay.turn_id))
        elif not self._exclusives.waits(message):
            self._parts.naming.cancel(self._session_id)
            self._exclusives.begin(message)

    def _adopt(self) -> None:
        """Go on with what a predecessor left: an order is repeated, since a repeat changes nothing.

        A claim that killed one actor after the other is nothing that a further one can bring to its end.
        """
        claim = self._claim
        if claim is None:
            self._exclusives.write()
            return
        claim.adoptions += 1
        if claim.adoptions > ADOPTIONS:
            self._parts.give_up(f"session {self._session_id}")
        if claim.finished is not None:
            self._write(Write(claim.finished.order, self._parts.sessions, "evidence"))
        elif not claim.begun:
            self._write(Write(claim.send.order, self._parts.sessions, "begin", claim.send.deadline))
        else:
            self._tell_begun(claim)
            if claim.turn is None or not claim.turn.is_alive():  # heard after the end that it may have told
                cause = "the session's actor died"
                self._parts.sessions.tell(TurnDied(self._session_id, claim.replay.turn_id, cause))

    def _rest_if_idle(self) -> None:
        if self._claim is None and not self._exclusives:
            deliver(self._parts.sessions, Idle(self._session_id, self._handled))
