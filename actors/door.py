"""A permanent address for an actor that must not stay dead."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pykka
from pykka._actor import ActorInbox

from actors.base import BaseActor, Inbox

logger = logging.getLogger(__name__)

RESTARTS = 5
RESTART_WINDOW_S = 60.0


class Door:
    """Tells the actor behind it; puts a successor there when it broke.

    `start` gives the door to the actor; what must not be lost lives outside it. When `RESTARTS` within a
    minute do not keep it alive, `give_up` is called.
    """

    def __init__(
        self, name: str, start: Callable[["Door"], pykka.ActorRef[Any]], give_up: Callable[[str], None]
    ) -> None:
        self._name = name
        self._start = start
        self._give_up = give_up
        self._lock = threading.RLock()
        self._restarts: list[float] = []
        self._closed = False
        self._reference = start(self)

    def tell(self, message: Any) -> None:
        """Tell the actor, or its successor. Raises pykka.ActorDeadError once the door is closed."""
        try:
            self._reference.tell(message)
        except pykka.ActorDeadError:
            with self._lock:
                self.revive()
                self._reference.tell(message)

    def revive(self) -> None:
        """Start a successor if the actor is dead and the door is not closed."""
        with self._lock:
            if self._closed or self._reference.is_alive():
                return
            self._count_restart()
            dead, self._reference = self._reference, self._start(self)
            _inbox(dead).bequeath(_inbox(self._reference).put)

    def _count_restart(self) -> None:
        now = time.monotonic()
        self._restarts = [at for at in self._restarts if now - at < RESTART_WINDOW_S] + [now]
        logger.error("%s died, a successor takes over", self._name)
        if len(self._restarts) > RESTARTS:
            self._give_up(self._name)

    def stop(self, timeout: float = 5.0) -> None:
        """Stop the actor once its inbox is empty; no successor follows."""
        with self._lock:
            self._closed = True
        self._reference.stop(timeout=timeout)


def _inbox(actor: pykka.ActorRef[Any]) -> Inbox:
    return cast(Inbox, actor.actor_inbox)


class Permanent(BaseActor):
    """An actor behind a Door: its death wakes the door, so that nothing waits for the next message."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return Inbox()

    def cleaned_up(self, cause: str | None) -> None:
        if cause is not None:
            self._door.revive()
