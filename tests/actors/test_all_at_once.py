"""Many people, deaths and outages at once: everybody is answered, and nothing is left open or behind."""

import random
import threading
import time
import uuid

import peewee
import pykka
import pytest
from pykka import messages

from actors import door, persistence
from actors import session as sessions
from actors import system as systems
from actors.base import Answer
from actors.messages import AnswerPermission, Exclusive
from tests.actors.play import House, PlayedGateway, eventually
from timothy.errors import Stopped
from timothy.eventlog.records import DeleteSession
from timothy.events import (
    Done,
    Error,
    Meta,
    PermissionRequest,
    PermissionResolved,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolResult,
    TurnStarted,
)
from timothy.upkeep.promises import CHECKS

PEOPLE, DEEDS = 10, 40
OUTAGE_S = 0.05
DEATH = messages.ProxyGetAttr(attr_path=("killed_by_the_test",))
STORAGE: list[float] = [0.0]  # until when it fails


class Gateway(PlayedGateway):
    """Says something slowly, and at first asks for up to three tools, as each seed wants it."""

    def stream(self, request, cancel):
        return self._named(self._play(request, cancel), cancel)

    def _raw(self, play, cancel):
        return play

    def _play(self, request, cancel):
        for word in "ab"[: random.randrange(1, 3)]:
            if cancel.wait(random.random() * 0.004):
                raise Stopped("stopped")
            yield TextDelta(word)
        if request.tools and not request.messages[-1].call_id:
            for name in "xyz"[: random.randrange(4)]:
                yield ToolCallStarted(name, "remember")
                yield ToolCall(name, "remember", {"text": name})
        yield Done("stop")


class Person:
    """Does something to one of four conversations, again and again; `told` is what came back."""

    def __init__(self, house, open_sessions, seed):
        self.system, self.house = house.system, house
        self.sessions, self.random = open_sessions, random.Random(seed)
        self.told, self.streams = [], []

    def live(self):
        for _ in range(DEEDS):
            deed = self.random.choice([self.send, self.send, self.stop, self.answer, self.delete, self.kill])
            self.told.append(deed(self.random.randrange(len(self.sessions))))

    def send(self, which):
        key = self.random.choice([None, str(self.random.randrange(20))])
        news = self.house.ask(self.sessions[which], idempotency_key=key)
        self.streams += [news.replay] if hasattr(news, "replay") else []
        return news

    def stop(self, which):
        return self.house.stop(self.sessions[which])

    def answer(self, _):
        parked, reply = self.system.pending.all(), Answer()
        if not parked:
            return "nothing waits"
        one, decision = self.random.choice(parked), self.random.choice(["once", "session", "deny"])
        try:
            one.turn.tell(AnswerPermission(one.request.id, decision, reply))
        except pykka.ActorDeadError:
            return "the turn is over"
        return reply.get(10)

    def delete(self, which):
        reply, session_id = Answer(), self.sessions[which]
        order = DeleteSession(append_id=str(uuid.uuid4()), session_id=session_id)
        self.system.sessions.tell(Exclusive(session_id, order, time.monotonic() + 5, reply))
        self.sessions[which] = self.house.session()
        return reply.get(10)

    def kill(self, which):
        room = self.system._rooms.rooms.get(self.sessions[which])
        claim = self.system.claims.get(self.sessions[which])
        doors = [self.system.sessions._reference, self.system.persistence._reference]
        victims = [room and room.session, claim and claim.turn, self.random.choice(doors)]
        STORAGE[0] = time.monotonic() + self.random.choice([0, 0, OUTAGE_S])
        victim = self.random.choice([one for one in victims if one])
        try:
            victim.tell(DEATH)
        except pykka.ActorDeadError:
            return "it is dead"
        return "it dies"


class Storage(systems.Writer):
    """Fails now and then."""

    def commit(self, orders):
        if time.monotonic() < STORAGE[0]:
            raise peewee.OperationalError("full")
        return super().commit(orders)


def well_ended(replay):
    """One start, first; one terminal and the meta, last; what was opened is closed."""
    events = replay.events()
    kinds = [type(event) for event in events]
    ends = [kind for kind in kinds if kind in (Done, Error)]
    opened = sorted(e.id for e in events if type(e) is PermissionRequest)
    called = sorted(e.call_id for e in events if type(e) is ToolCall)
    return (
        (kinds[0], kinds[-2:]) == (TurnStarted, [*ends, Meta])
        and opened == sorted(e.id for e in events if type(e) is PermissionResolved)
        and called == sorted(e.call_id for e in events if type(e) is ToolResult)
    )


@pytest.mark.parametrize("seed", range(2))
def test_whatever_meets_whatever_everybody_is_answered_and_nothing_is_left(tmp_path, monkeypatch, seed):
    for module, name, value in (
        (door, "RESTARTS", 10**6),
        (sessions, "ADOPTIONS", 10**6),
        (persistence, "RETRY_S", 0.01),
        (systems, "Writer", Storage),
    ):
        monkeypatch.setattr(module, name, value)
    house = House(tmp_path / "home", '[titles]\nby = "model"\n')
    house.system.gateway = house.system._naming.gateway = Gateway()
    open_sessions = [house.session() for _ in range(4)]
    people = [Person(house, open_sessions, f"{seed} {number}") for number in range(PEOPLE)]
    threads = [threading.Thread(target=person.live) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(person.told) for person in people] == [DEEDS] * PEOPLE
    system = house.system
    for session_id in system.claims:  # those whose tools wait for an answer
        house.stop(session_id)
    eventually(lambda: not (len(system.claims) or system.claims.exclusive or system._naming.running))
    eventually(lambda: not (system._rooms.rooms or system.pending.all()))
    streams = [replay for person in people for replay in person.streams]
    assert streams and all(replay.closed for replay in streams)
    assert [replay.events() for replay in streams if not well_ended(replay)] == []
    checks = {
        name: query for name, query in CHECKS.items() if name != "ledger_status"
    }  # a play names no code
    broken = {name: system.read(_rows, query) for name, query in checks.items()}
    assert {name: rows for name, rows in broken.items() if rows} == {}
    house.close()


def _rows(database, query):
    return database.execute_sql(query).fetchall()
