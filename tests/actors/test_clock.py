"""Deadlines: in order, not before their time, not lost with the actor."""

import time

from actors.clock import ClockActor, Deadlines
from actors.door import Door
from actors.messages import Remind
from tests.actors.play import Gone, Probe, eventually, kill


class Now:
    def __init__(self):
        self.value = 100.0

    def __call__(self):
        return self.value


def started(deadlines):
    return Door("clock", lambda door: ClockActor.start(door, deadlines), lambda name: None)


def test_reminders_come_in_the_order_of_their_time_whatever_order_they_were_asked_in():
    now, probe = Now(), Probe()
    deadlines = Deadlines(now)
    for at in (103, 101, 102, 101):
        deadlines.add(Remind(at, probe, f"{at}/{len(deadlines._heap)}"))
    assert deadlines.wait() == 1
    assert list(deadlines.due()) == []
    now.value = 102
    assert deadlines.wait() == 0
    assert [message for _, message in deadlines.due()] == ["101/1", "101/3", "102/2"]
    assert deadlines.wait() == 1


def test_with_nothing_to_remind_of_there_is_nothing_to_wait_for():
    assert Deadlines(Now()).wait() is None


def test_what_is_not_taken_out_yet_stays():
    now = Now()
    deadlines = Deadlines(now)
    for message in "ab":
        deadlines.add(Remind(1, Probe(), message))
    assert next(deadlines.due())[1] == "a"
    assert [message for _, message in deadlines.due()] == ["b"]


def test_the_clock_tells_each_target_when_its_time_has_come_and_not_before():
    probe, clock = Probe(), started(Deadlines())
    at = time.monotonic() + 0.05
    clock.tell(Remind(at + 0.03, probe, "second"))
    clock.tell(Remind(at, probe, "first"))
    clock.tell(Remind(at, Gone(), "nobody hears"))
    eventually(lambda: len(probe.messages) == 2)
    assert time.monotonic() >= at
    assert probe.messages == ["first", "second"]
    clock.stop()


def test_a_reminder_of_the_past_comes_at_once():
    probe, clock = Probe(), started(Deadlines())
    clock.tell(Remind(0.0, probe, "now"))
    assert eventually(lambda: probe.messages) == ["now"]
    clock.stop()


def test_a_successor_has_all_the_deadlines():
    probe, clock = Probe(), started(Deadlines())
    clock.tell(Remind(time.monotonic() + 0.1, probe, "kept"))
    kill(clock._reference)
    clock.tell(Remind(time.monotonic() + 0.05, probe, "new"))
    eventually(lambda: len(probe.messages) == 2)
    assert probe.messages == ["new", "kept"]
    clock.stop()


def test_a_target_that_breaks_takes_nobodys_reminder_with_it():
    class Broken:
        def tell(self, message):
            raise ValueError("broken target")

    probe, clock = Probe(), started(Deadlines())
    at = time.monotonic() + 0.03
    for target in (probe, Broken(), probe):
        clock.tell(Remind(at, target, "x"))
    eventually(lambda: len(probe.messages) == 2)
    clock.stop()
