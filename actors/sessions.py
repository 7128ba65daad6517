"""The only door to sessions: starts a session's actor at need and forwards by session id."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pykka

from actors.base import deliver
from actors.door import Door, Permanent
from actors.messages import Adopt, Idle, SessionDied

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Room:
    """One session's actor, and how many messages were forwarded to it."""

    session: pykka.ActorRef[Any]
    forwarded: int = 0


class Rooms:
    """session_id -> Room; it outlives the Sessions actor."""

    def __init__(self, start: Callable[[str], pykka.ActorRef[Any]]) -> None:
        self.start = start
        self.rooms: dict[str, Room] = {}

    def close(self) -> None:
        """Stop every session's actor, without waiting."""
        for room in list(self.rooms.values()):
            room.session.stop(block=False)


class Sessions(Permanent):
    """Forwards; drops an idle session's actor first and stops it then, so no message meets a stopping one."""

    def __init__(self, door: Door, rooms: Rooms) -> None:
        super().__init__(door)
        self._rooms = rooms

    def on_receive(self, message: Any) -> None:
        match message:
            case Idle():
                self._let_go(message)
            case SessionDied(session_id=session_id, cause=cause):
                logger.error("the actor of session %s died: %s", session_id, cause)
                self._replace(session_id)
            case _:
                self._forward(message)

    def _forward(self, message: Any) -> None:
        room = self._room(message.session_id)
        room.forwarded += 1
        if not deliver(room.session, message):
            self._replace(message.session_id)
            self._room(message.session_id).forwarded += 1
            deliver(self._room(message.session_id).session, message)

    def _room(self, session_id: str) -> Room:
        room = self._rooms.rooms.get(session_id)
        if room is None:
            room = self._rooms.rooms[session_id] = Room(self._rooms.start(session_id))
        return room

    def _replace(self, session_id: str) -> None:
        """A successor takes over the claim; what the dead actor did not read comes back here by itself."""
        dead = self._rooms.rooms.pop(session_id, None)
        if dead is not None and dead.session.is_alive():
            self._rooms.rooms[session_id] = dead  # the successor is there already
            return
        room = self._room(session_id)
        room.forwarded += 1
        deliver(room.session, Adopt(session_id))

    def _let_go(self, idle: Idle) -> None:
        room = self._rooms.rooms.get(idle.session_id)
        if room is not None and room.forwarded == idle.handled:
            del self._rooms.rooms[idle.session_id]
            room.session.stop(block=False)
