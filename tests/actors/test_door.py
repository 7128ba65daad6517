"""A permanent address: whoever is behind it, no message is lost."""

import threading

import pykka
import pytest

from actors import door as doors
from actors.door import Door, Permanent
from tests.actors.play import eventually, kill


class Worker(Permanent):
    """Keeps what it hears; dies of "die"."""

    def __init__(self, door, heard):
        super().__init__(door)
        self.heard = heard

    def on_receive(self, message):
        if message == "die":
            raise RuntimeError("died")
        if isinstance(message, threading.Event):
            message.wait(10)
        else:
            self.heard.append(message)


@pytest.fixture
def heard():
    return []


@pytest.fixture
def given_up():
    return []


@pytest.fixture
def door(heard, given_up):
    door = Door("worker", lambda door: Worker.start(door, heard), given_up.append)
    yield door
    if not door._closed:
        door.stop()


def test_a_successor_takes_over_what_the_dead_did_not_read(door, heard):
    hold = threading.Event()
    door.tell(hold)
    for message in ("a", "die", "b", "c"):
        door.tell(message)
    hold.set()
    eventually(lambda: len(heard) == 3)
    assert heard == ["a", "b", "c"]


def test_a_successor_is_there_without_waiting_for_a_message(door):
    dead = door._reference
    kill(dead)
    eventually(lambda: door._reference is not dead and door._reference.is_alive())


def test_no_message_is_lost_while_the_actor_dies_again_and_again(door, heard, given_up, monkeypatch):
    monkeypatch.setattr(doors, "RESTARTS", 1000)

    def send(name):
        for number in range(150):
            door.tell(f"{name}{number}")
            if number % 10 == 5:
                door.tell("die")

    senders = [threading.Thread(target=send, args=(name,)) for name in "abc"]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    eventually(lambda: len(heard) == 450)
    for name in "abc":
        mine = [message for message in heard if message.startswith(name)]
        assert mine == [f"{name}{number}" for number in range(150)]
    assert given_up == []


def test_too_many_deaths_in_a_minute_are_given_up(door, given_up):
    for number in range(doors.RESTARTS + 1):
        assert given_up == [], f"given up after {number} deaths"
        dead = door._reference
        kill(dead)
        eventually(lambda dead=dead: door._reference is not dead)
    assert given_up == ["worker"]


def test_deaths_long_ago_do_not_count(door, given_up, monkeypatch):
    monkeypatch.setattr(doors, "RESTART_WINDOW_S", 0.0)
    for _ in range(doors.RESTARTS + 3):
        dead = door._reference
        kill(dead)
        eventually(lambda dead=dead: door._reference is not dead)
    assert given_up == []


def test_a_closed_door_hears_all_that_came_before_and_nothing_after(door, heard):
    for number in range(50):
        door.tell(number)
    door.stop()
    assert heard == list(range(50))
    with pytest.raises(pykka.ActorDeadError):
        door.tell("late")


def test_behind_a_closed_door_nobody_follows(door):
    hold = threading.Event()
    last = door._reference
    door.tell(hold)
    door.tell("die")
    stopping = threading.Thread(target=door.stop)
    stopping.start()
    eventually(lambda: door._closed)
    hold.set()
    stopping.join(10)
    assert door._reference is last and not last.is_alive()
