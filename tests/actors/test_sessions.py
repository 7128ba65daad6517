"""The only door to sessions: idle actors go, no message is lost."""

import random
import threading
from dataclasses import dataclass

import pytest

from actors.base import BaseActor, Inbox, deliver
from actors.door import Door
from actors.messages import Adopt, Idle, SessionDied
from actors.sessions import Rooms, Sessions
from tests.actors.play import Probe, eventually, kill


@dataclass(frozen=True, slots=True)
class Letter:
    session_id: str
    number: int
    deadly: bool = False


class Guest(BaseActor):
    """Keeps letters as a session would; idle after each one; dies of a deadly one after keeping it."""

    def __init__(self, session_id, sessions, got):
        super().__init__()
        self.session_id, self.sessions, self.got = session_id, sessions, got
        self.handled = 0

    @staticmethod
    def _create_actor_inbox():
        return Inbox()

    def on_receive(self, message):
        self.handled += 1
        self.got.append(message)
        if getattr(message, "deadly", False):
            raise RuntimeError("died")
        deliver(self.sessions(), Idle(self.session_id, self.handled))

    def cleaned_up(self, cause):
        if cause is not None:
            deliver(self.sessions(), SessionDied(self.session_id, cause))
            self.actor_inbox.bequeath(lambda envelope: deliver(self.sessions(), envelope.message))


class House:
    def __init__(self):
        self.got, self.started = [], []
        self.rooms = Rooms(self._start)
        self.door = Door("sessions", lambda door: Sessions.start(door, self.rooms), pytest.fail)

    def _start(self, session_id):
        self.started.append(session_id)
        return Guest.start(session_id, lambda: self.door, self.got)

    def letters(self):
        return [message for message in list(self.got) if isinstance(message, Letter)]


@pytest.fixture
def house():
    house = House()
    yield house
    house.door.stop()
    for room in house.rooms.rooms.values():
        room.session.stop()


def test_an_idle_actor_is_let_go_and_comes_back_at_need(house):
    house.door.tell(Letter("a", 1))
    eventually(lambda: house.letters() and not house.rooms.rooms)
    house.door.tell(Letter("a", 2))
    eventually(lambda: len(house.letters()) == 2 and not house.rooms.rooms)
    assert house.started == ["a", "a"]


def test_an_actor_that_has_more_to_read_is_not_let_go():
    rooms = Rooms(lambda session_id: pytest.fail("started"))
    probe = Probe()
    probe.stop = lambda **_: pytest.fail("stopped")
    from actors.sessions import Room

    rooms.rooms["a"] = Room(probe, forwarded=3)
    sessions = Sessions.start(None, rooms)
    sessions.ask(Idle("a", 2))
    sessions.ask(Idle("unknown", 2))
    assert "a" in rooms.rooms
    sessions.stop()


def test_no_letter_is_lost_and_none_comes_twice_while_actors_come_and_go(house):
    def write(start):
        for number in range(start, start + 8):
            house.door.tell(Letter(f"s{number % 5}", number))

    for turn in range(30):
        starts = [turn * 100 + writer * 10 for writer in range(4)]
        writers = [threading.Thread(target=write, args=(start,)) for start in starts]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        if turn % 2:
            eventually(lambda: not house.rooms.rooms)
    eventually(lambda: len(house.letters()) == 960 and not house.rooms.rooms)
    assert len({letter.number for letter in house.letters()}) == 960
    assert len(house.started) > 50


def test_no_letter_is_lost_when_actors_die_in_between(house):
    chance = random.Random(7)

    def write(writer):
        for number in range(150):
            deadly = chance.random() < 0.1
            house.door.tell(Letter(f"s{number % 3}", writer * 1000 + number, deadly))

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    eventually(lambda: len(house.letters()) == 450)
    assert len({letter.number for letter in house.letters()}) == 450
    eventually(lambda: not house.rooms.rooms)


def test_a_dead_actors_successor_is_told_to_adopt_its_claim(house):
    house.door.tell(Letter("a", 1, deadly=True))
    eventually(lambda: Adopt("a") in house.got)
    eventually(lambda: not house.rooms.rooms)


def test_letters_of_one_writer_keep_their_order(house):
    for number in range(300):
        house.door.tell(Letter("a", number))
    eventually(lambda: len(house.letters()) == 300)
    assert [letter.number for letter in house.letters()] == list(range(300))


def test_the_rooms_outlive_the_actor_that_serves_them(house):
    for number in range(20):
        house.door.tell(Letter(f"s{number % 2}", number))
        if number in (5, 12):
            kill(house.door._reference)
    eventually(lambda: len(house.letters()) == 20 and not house.rooms.rooms)
