"""A turn's permission requests: parked until a person, the clock or the turn's end decides."""

import time
from collections.abc import Callable
from typing import Any

import pykka

from actors.base import Target, deliver
from actors.claims import Parked, Pending
from actors.crash import crash_point
from actors.messages import Answered, AnswerPermission, Notify, PermissionOver, Remind
from timothy.events import PermissionRequest
from timothy.moment import stamp
from timothy.turn.replay import Replay


class Parking:
    """Belongs to one TurnActor. The first answer wins; a person may take `patience_s` seconds."""

    def __init__(
        self,
        turn: pykka.ActorRef[Any],
        replay: Replay,
        pending: Pending,
        clock: Target,
        notify: Callable[[Notify, bool], None],
        patience_s: float,
    ) -> None:
        self._turn = turn
        self._replay = replay
        self._pending = pending
        self._clock = clock
        self._notify = notify
        self._patience_s = patience_s
        self._answers: dict[str, tuple[str, list[Target]]] = {}
        self._asked: dict[str, str] = {}

    def park(self, request: PermissionRequest) -> None:
        """Open the request to whoever may answer, and tell the person who watches nothing."""
        replay = self._replay
        self._pending.add(Parked(replay.session_id, replay.turn_id, request, stamp(), self._turn))
        over_at = time.monotonic() + self._patience_s
        self._clock.tell(Remind(over_at, self._turn, PermissionOver(request.id)))
        self._answers.setdefault(request.id, ("", []))
        self._asked[request.call_id] = request.id
        if replay.state == "running":
            replay.state = "waiting"
        text = f"{request.tool}: {request.rationale}"
        self._notify(Notify("waiting", replay.session_id, replay.turn_id, None, text[:300]), replay.watched)
        crash_point("permission_parked")

    def unpark(self, permission_id: str, decision: str) -> None:
        """The request is decided, if not by an answer of its own: nobody is asked any more."""
        self._pending.remove(permission_id)
        if not self._answers.get(permission_id, ("", []))[0]:
            self._answers[permission_id] = (decision, [])
        mine = [parked for parked in self._pending.all() if parked.turn_id == self._replay.turn_id]
        if self._replay.state == "waiting" and not mine:
            self._replay.state = "running"

    def takes(self, answer: AnswerPermission) -> bool:
        """True when this answer decides; it is confirmed once it is durable. Else it is told what did."""
        decision, waiting = self._answers.get(answer.permission_id, ("cancelled", []))
        if decision:
            self.refuse(answer)
            return False
        self._answers[answer.permission_id] = (answer.decision, [answer.answer_to, *waiting])
        return True

    def refuse(self, answer: AnswerPermission) -> None:
        """Tell who answers too late what was decided before."""
        decision, _ = self._answers.get(answer.permission_id, ("", []))
        deliver(answer.answer_to, Answered(decision or "cancelled", first=False))

    def times_out(self, permission_id: str) -> bool:
        """True when nobody had answered by now."""
        if self._answers.get(permission_id, ("", []))[0]:
            return False
        self._answers[permission_id] = ("timeout", [])
        return True

    def confirm(self, call_id: str) -> None:
        """The answer about this call is durable: say so to whoever gave it."""
        self._tell(self._asked[call_id])

    def confirm_all(self) -> None:
        """Every answer that was given is ahead of the turn's evidence on its way to the log."""
        for permission_id in self._answers:
            self._tell(permission_id)

    def close(self) -> None:
        """The turn is over."""
        for permission_id in self._answers:
            self._pending.remove(permission_id)
        self.confirm_all()

    def _tell(self, permission_id: str) -> None:
        decision, waiting = self._answers.get(permission_id, ("", []))
        for target in waiting:
            deliver(target, Answered(decision, first=True))
        self._answers[permission_id] = (decision, [])
