"""An order that has a session for itself: what comes while it is written waits for what becomes of it."""

from actors.base import Target, deliver
from actors.claims import Claims
from actors.messages import Exclusive, Send, Write, Wrote

TOKEN = "exclusive"


class ExclusiveOrders:
    """Those of one session, one after the other. What waits is in the claims, and outlives the actor."""

    def __init__(self, session_id: str, claims: Claims, persistence: Target, sessions: Target) -> None:
        self._session_id = session_id
        self._queues = claims.exclusive
        self._persistence = persistence
        self._sessions = sessions

    def __bool__(self) -> bool:
        return self._session_id in self._queues

    def begin(self, message: Exclusive) -> None:
        """Nothing else runs: have the order written."""
        self._queues[self._session_id] = [message]
        self.write()

    def write(self) -> None:
        """Have the order written that is under way, if one is; again, when a predecessor left it."""
        first = self._under_way
        if first is not None:
            self._persistence.tell(Write(first.order, self._sessions, _token(first), first.deadline))

    def waits(self, message: Exclusive | Send) -> bool:
        """True while an order is under way: then the message goes on when that is decided."""
        queue = self._queues.get(self._session_id)
        if queue is not None:
            queue.append(message)
        return queue is not None

    def over(self, news: Wrote) -> None:
        """The order is decided, unless that is old news; what waited comes back by the door."""
        first = self._under_way
        if first is None or news.token != _token(first):
            return
        waiting = self._queues.pop(self._session_id)[1:]
        deliver(first.answer_to, news)
        for message in waiting:
            deliver(self._sessions, message)

    @property
    def _under_way(self) -> Exclusive | None:
        queue = self._queues.get(self._session_id)
        first = queue[0] if queue else None
        assert not isinstance(first, Send)
        return first


def _token(message: Exclusive) -> str:
    return f"{TOKEN} {message.order.append_id}"
