"""What every actor shares."""

import threading

import pykka
import pytest
from pykka._envelope import Envelope

from actors.base import Answer, BaseActor, Inbox, deliver
from tests.actors.play import Gone, Probe, eventually, kill
from timothy.errors import StorageUnavailable


class Recorder(BaseActor):
    def __init__(self, causes):
        super().__init__()
        self.causes = causes

    def on_receive(self, message):
        pass

    def cleaned_up(self, cause):
        self.causes.append(cause)


def test_one_clean_up_serves_both_ways_to_die():
    causes = []
    Recorder.start(causes).stop()
    assert causes == [None]
    actor = Recorder.start(causes)
    kill(actor)
    eventually(lambda: len(causes) == 2)
    assert causes[1].startswith("AttributeError") and "killed_by_the_test" in causes[1]


def test_a_message_to_a_target_that_is_gone_is_no_error():
    probe = Probe()
    assert deliver(probe, "a") is True
    assert deliver(None, "a") is False
    assert deliver(Gone(), "a") is False
    actor = Recorder.start([])
    actor.stop()
    assert deliver(actor, "a") is False
    assert probe.messages == ["a"]


def test_an_answer_is_given_once():
    answer = Answer()
    answer.tell("first")
    answer.tell("second")
    assert answer.get(1) == "first"
    with pytest.raises(pykka.Timeout):
        Answer().get(0.01)


def read(inbox):
    found = []
    while not inbox.empty():
        found.append(inbox.get().message)
    return found


def test_an_heir_gets_what_was_not_read_and_what_comes_later_in_order():
    dead, heir = Inbox(), Inbox()
    for number in range(3):
        dead.put(Envelope(number))
    assert dead.get().message == 0
    dead.bequeath(heir.put)
    dead.put(Envelope(3))
    assert read(heir) == [1, 2, 3]
    assert dead.empty()


def test_no_message_falls_between_the_dead_and_its_heir():
    for _ in range(20):
        dead, heir = Inbox(), Inbox()

        def send(first, dead=dead):
            for number in range(first, first + 200):
                dead.put(Envelope(number))

        senders = [threading.Thread(target=send, args=(first,)) for first in (0, 1000, 2000)]
        for sender in senders:
            sender.start()
        dead.bequeath(heir.put)
        for sender in senders:
            sender.join()
        got = read(heir)
        assert len(got) == 600
        for first in (0, 1000, 2000):
            mine = [number for number in got if first <= number < first + 200]
            assert mine == sorted(mine)


def test_a_writer_that_never_decides_keeps_nobody_waiting_for_ever():
    answer = Answer()
    with pytest.raises(StorageUnavailable, match=r"0\.01 s; it is not known whether this was saved"):
        answer.verdict(0.01)
    answer.tell("written")
    assert answer.verdict() == "written"
