"""The exclusive claim: at most one turn runs in a session. Who may read what runs, without asking."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pykka

from actors.base import Target
from actors.messages import EndNow, Exclusive, Send, TurnFinished
from timothy.turn.replay import Replay


@dataclass(slots=True)
class Claim:
    """What a session's actor knows of its running turn. Only that actor, or its successor, writes here."""

    send: Send
    replay: Replay
    began_at: float
    turn: pykka.ActorRef[Any] | None = None
    begun: bool = False
    user_seq: int = 0
    adoptions: int = 0
    end_early: EndNow | None = None
    finished: TurnFinished | None = None
    waiting_stops: list[Target] = field(default_factory=list)
    repeats: list[Target] = field(default_factory=list)

    def is_of(self, send: Send) -> bool:
        """True when `send` carries the Idempotency-Key of the one that made this claim."""
        key = send.order.idempotency_key
        return key is not None and key == self.send.order.idempotency_key

    @property
    def label(self) -> str:
        """How log lines name the turn: with the id of the request that began it."""
        order = self.send.order
        return f"turn {order.turn_id} of session {order.session_id} (request {order.request_id})"


class Claims:
    """session_id -> Claim: the registry. Written at claim and release only; read by anyone."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self.exclusive: dict[str, list[Exclusive | Send]] = {}  # the first is written, the others wait

    def take(self, session_id: str, claim: Claim) -> None:
        """The claim is held from now on."""
        self._claims[session_id] = claim

    def release(self, session_id: str) -> None:
        """The session is free again."""
        self._claims.pop(session_id, None)

    def get(self, session_id: str) -> Claim | None:
        """The running turn's claim, or None; a turn that is not durable yet counts as running."""
        return self._claims.get(session_id)

    def replay(self, session_id: str) -> Replay | None:
        """The running turn's replay, once the turn is durable."""
        claim = self._claims.get(session_id)
        return claim.replay if claim is not None and claim.begun else None

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._claims))

    def __len__(self) -> int:
        return len(self._claims)


@dataclass(frozen=True, slots=True)
class Parked:
    """A permission request that waits for a person, and the turn that waits with it."""

    session_id: str
    turn_id: str
    request: Any
    requested_at: str
    turn: pykka.ActorRef[Any]


class Pending:
    """permission id -> Parked: the open requests of all turns. Each entry is its TurnActor's own."""

    def __init__(self) -> None:
        self._parked: dict[str, Parked] = {}

    def add(self, parked: Parked) -> None:
        """The request is open."""
        self._parked[parked.request.id] = parked

    def remove(self, permission_id: str) -> None:
        """The request is not open any more."""
        self._parked.pop(permission_id, None)

    def get(self, permission_id: str) -> Parked | None:
        """The open request, or None."""
        return self._parked.get(permission_id)

    def all(self) -> list[Parked]:
        """All open requests, the oldest first."""
        return list(self._parked.values())
