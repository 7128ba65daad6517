"""The watchdog: whoever is silent for too long is told so once, whoever left never."""

import threading
import time

from timothy.providers.watchdog import TICK_S, Watchdog


class Silent:
    """Something watched, that notes when it was called overdue."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.times: list[float] = []
        self.told = threading.Event()

    def overdue(self) -> None:
        self.times.append(time.monotonic())
        self.told.set()


def test_a_deadline_that_passes_is_told_soon_and_once() -> None:
    watchdog, silent, later = Watchdog(), Silent(0.05), Silent(0.3)
    watchdog.watch(silent)
    watchdog.watch(later)
    assert later.told.wait(5)
    assert len(silent.times) == 1
    assert 0 <= silent.times[0] - silent.deadline < TICK_S


def test_a_near_deadline_is_heard_of_while_a_far_one_is_waited_for() -> None:
    watchdog, far, near = Watchdog(), Silent(1000), Silent(0.02)
    watchdog.watch(far)
    watchdog.watch(near)
    assert near.told.wait(5) and not far.times


def test_a_deadline_moves_by_a_write_in_both_directions() -> None:
    watchdog, later, sooner = Watchdog(), Silent(0.05), Silent(1000)
    watchdog.watch(later)
    watchdog.watch(sooner)
    later.deadline = time.monotonic() + 1000
    sooner.deadline = time.monotonic() + 0.1
    assert sooner.told.wait(5) and not later.times


def test_who_left_is_not_told() -> None:
    watchdog, gone, there = Watchdog(), Silent(0.05), Silent(0.1)
    watchdog.watch(gone)
    watchdog.watch(there)
    watchdog.leave(gone)
    assert there.told.wait(5) and not gone.times


def test_a_watch_that_rested_begins_again() -> None:
    watchdog = Watchdog()
    for _ in range(2):
        silent = Silent(0.01)
        watchdog.watch(silent)
        assert silent.told.wait(5)
