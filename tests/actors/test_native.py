"""The one door to real threads."""

import threading
import time

import pytest

from actors.native import Native, Pool, patched


@pytest.fixture
def native():
    native = Native()
    yield native
    native.close()


def test_the_world_is_known(world):
    assert patched() == (world == "gevent")


def test_a_result_and_an_exception_come_back_to_the_caller(native, capfd):
    assert native(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        native(lambda: 1 / 0)
    with pytest.raises(OSError, match="disk"):
        native(_raise, OSError("disk"))
    assert native(lambda: None) is None
    assert capfd.readouterr().err == ""


def _raise(error):
    raise error


def most_at_once(native, enough):
    """How many of eight pieces of work ever ran at once; each waits a moment for `enough` to be there."""
    running, most = [], []

    def work():
        running.append(1)
        most.append(len(running))
        until = time.monotonic() + 5
        while max(most) < enough and time.monotonic() < until:
            real_sleep(0.001)
        real_sleep(0.002)
        running.pop()

    callers = [threading.Thread(target=native, args=(work,)) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(most) == 8
    return max(most)


def test_one_piece_of_work_at_a_time(native):
    assert most_at_once(native, 1) == 1


def test_a_few_pieces_of_work_at_a_time_where_there_are_a_few_threads():
    native = Native(threads=4)
    assert most_at_once(native, 4) == 4
    native.close()


def test_a_close_waits_for_a_disk_that_hangs_only_so_long():
    native = Native()
    caller = threading.Thread(target=native, args=(real_sleep, 1))
    caller.start()
    began = time.monotonic()
    native.close(patience_s=0.1)
    assert time.monotonic() - began < 0.8
    caller.join()


def real_sleep(seconds):
    """A wait that blocks its real thread: what a commit does."""
    try:
        from gevent import monkey

        monkey.get_original("time", "sleep")(seconds)
    except ImportError:
        time.sleep(seconds)


def test_work_parks_only_its_caller(native):
    """Others go on while a commit takes its time."""
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.002)

    ticker = threading.Thread(target=tick)
    ticker.start()
    native(real_sleep, 0.1)
    done.set()
    ticker.join()
    assert len(ticks) > 10


class Resource:
    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


def test_a_pool_uses_its_resources_in_turn_and_closes_them_all():
    resources = [Resource(), Resource()]
    pool = Pool(resources)
    used = [pool(lambda resource, word, end: (resource, word + end), "a", end="!") for _ in range(4)]
    assert [word for _, word in used] == ["a!"] * 4
    assert {id(resource) for resource, _ in used} == set(map(id, resources))
    pool.close()
    assert all(resource.closed for resource in resources)
