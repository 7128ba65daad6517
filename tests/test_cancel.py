"""A stop reaches whoever is blocked, whichever comes first."""

import socket
import threading
import time

import pytest

from timothy.cancel import Cancel


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_blocked_read_ends_when_it_is_cancelled(pair):
    ours, theirs = pair
    cancel = Cancel()
    cancel.attach(ours)
    got = []

    def read():
        try:
            got.append(ours.recv(10))
        except OSError:  # how a patched socket says it
            got.append(b"")

    reader = threading.Thread(target=read)
    reader.start()
    cancel.cancel()
    reader.join(5)
    assert got == [b""]
    assert theirs.recv(10) == b""  # the other side sees it too


def test_a_socket_that_comes_after_the_cancel_is_shut_at_once(pair):
    ours, theirs = pair
    cancel = Cancel()
    cancel.cancel()
    cancel.attach(ours)
    assert cancel.cancelled
    assert theirs.recv(10) == b""


def test_a_detached_socket_is_left_alone(pair):
    ours, theirs = pair
    cancel = Cancel()
    cancel.attach(ours)
    cancel.detach()
    cancel.cancel()
    ours.sendall(b"still open")
    assert theirs.recv(100) == b"still open"


def test_a_wait_ends_with_the_cancel_and_says_so():
    cancel = Cancel()
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(cancel.wait(30)))
    waiter.start()
    cancel.cancel()
    waiter.join(5)
    assert answers == [True]


def test_a_wait_that_nobody_cancels_takes_its_time():
    cancel = Cancel()
    before = time.monotonic()
    assert cancel.wait(0.02) is False
    assert time.monotonic() - before >= 0.02
    assert not cancel.cancelled


def test_cancelling_twice_or_a_dead_socket_raises_nothing(pair):
    ours, _ = pair
    cancel = Cancel()
    cancel.attach(ours)
    ours.close()
    cancel.cancel()
    cancel.cancel()
    assert cancel.cancelled
