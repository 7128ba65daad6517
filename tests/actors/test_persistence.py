"""The single writer: batches, patience with a storage that fails, nothing dropped."""

import contextlib
import logging
import threading
import time

import peewee
import pytest

from actors import persistence
from actors.clock import ClockActor, Deadlines
from actors.door import Door
from actors.messages import StorageRetrying, Write, Wrote
from actors.native import Native
from actors.persistence import Backlog, PersistenceActor
from tests.actors.play import Gone, Probe, eventually, kill
from timothy.eventlog.records import AppendRows, CreateSession, Refused, Written


def row(name, turn_id="t"):
    return AppendRows(append_id=name, session_id="s", turn_id=turn_id)


class Storage:
    """Keeps committed orders; fails while `fault` is set; waits while `hold` is."""

    def __init__(self):
        self.batches = []
        self.fault = None
        self.tries = 0
        self.hold = threading.Event()
        self.hold.set()

    def commit(self, orders):
        self.hold.wait(10)
        self.tries += 1
        if self.fault:
            raise self.fault
        self.batches.append([order.append_id for order in orders])
        return [Written(len(self.batches)) for _ in orders]

    @property
    def kept(self):
        return [append_id for batch in self.batches for append_id in batch]


class Plain:
    """In place of a native thread: the storage of these tests waits in ways that a loop understands."""

    def __call__(self, work, *plain):
        return work(*plain)


@pytest.fixture
def storage():
    return Storage()


@pytest.fixture
def backlog():
    return Backlog()


@contextlib.contextmanager
def started(commit, backlog, native):
    """The door to a writer with a clock of its own."""
    deadlines = Deadlines()
    clock = Door("clock", lambda door: ClockActor.start(door, deadlines), pytest.fail)
    parts = (commit, native, clock, backlog)
    door = Door("persistence", lambda door: PersistenceActor.start(door, *parts), pytest.fail)
    yield door
    door.stop()
    clock.stop()


@pytest.fixture
def writer(storage, backlog, monkeypatch):
    monkeypatch.setattr(persistence, "RETRY_S", 0.01)
    with started(storage.commit, backlog, Plain()) as door:
        yield door
        storage.fault = None
        storage.hold.set()


def test_an_order_is_answered_when_it_is_durable(writer, storage):
    probe = Probe()
    writer.tell(Write(row("a"), probe, "token"))
    assert probe.first(Wrote) == Wrote("s", "t", "token", Written(1))
    assert storage.kept == ["a"]
    writer.tell(Write(CreateSession(append_id="b", session_id="s", title=None), probe))
    eventually(lambda: len(probe.messages) == 2)
    assert probe.messages[1].turn_id is None


def test_what_piles_up_during_a_commit_is_one_commit(writer, storage):
    storage.hold.clear()
    writer.tell(Write(row("first")))
    eventually(lambda: storage.hold.is_set() or writer._reference.actor_inbox.empty())
    for number in range(30):
        writer.tell(Write(row(str(number))))
    storage.hold.set()
    eventually(lambda: len(storage.kept) == 31)
    assert storage.kept == ["first", *map(str, range(30))]
    assert len(storage.batches) <= 3


def test_a_batch_has_an_end(writer, storage, monkeypatch):
    monkeypatch.setattr(persistence, "BATCH", 10)
    storage.hold.clear()
    for number in range(35):
        writer.tell(Write(row(str(number))))
    storage.hold.set()
    eventually(lambda: len(storage.kept) == 35)
    assert max(map(len, storage.batches)) <= 10
    assert storage.kept == [str(number) for number in range(35)]


def test_an_answer_to_nobody_or_to_one_that_is_gone_is_no_error(writer, storage):
    writer.tell(Write(row("a"), None))
    writer.tell(Write(row("b"), Gone()))
    eventually(lambda: storage.kept == ["a", "b"])


@pytest.mark.parametrize("fault", [peewee.OperationalError("disk is full"), OSError("disk is full")])
def test_a_storage_that_fails_is_tried_again_until_it_works(writer, storage, backlog, fault):
    probe = Probe()
    storage.fault = fault
    writer.tell(Write(row("a"), probe))
    eventually(lambda: storage.tries > 3)
    writer.tell(Write(row("b"), probe))
    assert backlog.fault == "disk is full"
    assert storage.kept == [] and probe.of(Wrote) == []
    storage.fault = None
    eventually(lambda: len(probe.of(Wrote)) == 2)
    assert storage.kept == ["a", "b"]
    assert backlog.fault is None and backlog.pending == []


def test_each_turn_is_warned_once_in_an_outage_and_again_in_the_next(writer, storage):
    one, other = Probe(), Probe()
    for _ in range(2):
        storage.fault = OSError("full")
        writer.tell(Write(row("a", "t1"), one))
        writer.tell(Write(row("b", "t1"), one))
        writer.tell(Write(row("c", "t2"), other))
        tries = storage.tries
        eventually(lambda tries=tries: storage.tries > tries + 4)
        storage.fault = None
        eventually(lambda: not storage.fault and len(one.of(Wrote)) % 2 == 0 and len(other.of(Wrote)))
        eventually(lambda: len(one.of(Wrote)) == 2 * len(other.of(Wrote)))
    assert one.of(StorageRetrying) == [StorageRetrying("s", "t1", "full")] * 2
    assert other.of(StorageRetrying) == [StorageRetrying("s", "t2", "full")] * 2


def test_a_warning_that_reaches_nobody_is_given_by_the_next_order(writer, storage):
    probe = Probe()
    storage.fault = OSError("full")
    writer.tell(Write(row("piece"), Gone()))
    writer.tell(Write(row("evidence"), probe))
    probe.first(StorageRetrying)


def test_an_expired_order_is_refused_and_leaves_nothing(writer, storage, backlog):
    probe = Probe()
    storage.fault = OSError("full")
    writer.tell(Write(row("kept"), probe, "kept"))
    writer.tell(Write(row("late"), probe, "late", deadline=time.monotonic() + 0.05))
    news = probe.first(Wrote)
    assert news.token == "late"
    assert news.verdict == Refused("storage_unavailable", "this could not be saved in time: full")
    storage.fault = None
    eventually(lambda: storage.kept == ["kept"])


def test_an_order_that_is_late_without_any_fault_is_refused_too(writer, storage):
    probe = Probe()
    writer.tell(Write(row("late"), probe, deadline=time.monotonic() - 1))
    assert probe.first(Wrote).verdict.code == "storage_unavailable"
    assert storage.kept == []


def test_after_the_last_order_was_refused_the_storage_is_probed_until_it_works(writer, storage, backlog):
    probe = Probe()
    storage.fault = OSError("full")
    writer.tell(Write(row("late"), probe, deadline=time.monotonic() + 0.02))
    probe.first(Wrote)
    assert backlog.fault == "full"
    storage.fault = None
    eventually(lambda: backlog.fault is None)
    assert storage.kept == [] and storage.batches[-1] == []


def test_a_successor_goes_on_with_everything_and_goes_on_trying(writer, storage, backlog):
    probe = Probe()
    storage.fault = OSError("full")
    writer.tell(Write(row("a"), probe))
    eventually(lambda: storage.tries > 1)
    kill(writer._reference)
    writer.tell(Write(row("b"), probe))
    storage.fault = None
    eventually(lambda: len(probe.of(Wrote)) == 2)
    assert storage.kept == ["a", "b"]


def test_a_death_while_only_probes_are_left_does_not_end_the_probing(writer, storage, backlog):
    probe = Probe()
    storage.fault = OSError("full")
    writer.tell(Write(row("late"), probe, deadline=time.monotonic() + 0.02))
    probe.first(Wrote)
    kill(writer._reference)
    storage.fault = None
    eventually(lambda: backlog.fault is None)


def test_a_verdict_is_each_orders_own(backlog):
    probe = Probe()
    verdicts = {"a": Written(1), "bad": Refused("append_refused", "why"), "c": Written(2)}
    with started(lambda orders: [verdicts[o.append_id] for o in orders], backlog, Plain()) as door:
        for name in verdicts:
            door.tell(Write(row(name), probe, name))
        eventually(lambda: len(probe.messages) == 3)
    assert {news.token: news.verdict for news in probe.messages} == verdicts


def test_an_outage_is_logged_once_and_so_is_its_end(writer, storage, caplog):
    caplog.set_level(logging.WARNING)
    storage.fault = OSError("full")
    writer.tell(Write(row("a")))
    eventually(lambda: storage.tries > 3)
    storage.fault = None
    eventually(lambda: storage.kept == ["a"])
    told = [record.message for record in caplog.records if record.name == "actors.persistence"]
    assert told == ["the storage fails: full", "the storage works again"]


def test_it_works_with_a_native_thread_too(backlog):
    native, probe = Native(), Probe()
    with started(lambda orders: [Written(7) for _ in orders], backlog, native) as door:
        door.tell(Write(row("a"), probe))
        assert probe.first(Wrote).verdict == Written(7)
    native.close()
