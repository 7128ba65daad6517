"""One stream of the separate gateway: pieces, heartbeats, back-pressure, a client that left."""

import logging
import socket
import time

import pytest

from tests.gateway.conftest import ANSWER, REQUEST, FakeChain, fails
from timothy.conversation import Message, ModelRequest
from timothy.events import Done, TextDelta
from web.gateway_relay import GREETING, MOST_WAITING, Relay, Streams


@pytest.fixture
def line():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def streams():
    running = Streams(heartbeat_s=20)
    yield running
    assert running.shut_down(grace_s=5)


def wait_for(condition, timeout=5.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)


def test_the_greeting_leaves_before_the_chain_is_asked(line, streams):
    chain = FakeChain([ANSWER])
    relay = Relay(chain.gateway, REQUEST, line[0], streams)
    assert next(relay) == GREETING
    assert chain.asked() == {"a": 0}
    assert b"".join(relay).count(b"data: ") == 5
    assert chain.asked() == {"a": 1}


def test_a_response_that_nobody_reads_lets_the_provider_be(line, streams):
    chain = FakeChain([ANSWER])
    Relay(chain.gateway, REQUEST, line[0], streams).close()
    assert chain.asked() == {"a": 0}


def test_a_reader_that_is_slow_makes_the_chain_wait(line, streams):
    said = []

    def say():
        for number in range(10 * MOST_WAITING):
            said.append(number)
            yield TextDelta("x")
        yield Done("stop")

    chain = FakeChain([ANSWER])
    chain.drivers["a"].stream = lambda request, cancel: say()
    relay = Relay(chain.gateway, REQUEST, line[0], streams)
    assert next(relay) == GREETING
    read, most = next(relay), 0
    for piece in relay:
        read += piece
        wait_for(lambda: len(relay._frames) > MOST_WAITING or len(said) == 10 * MOST_WAITING)
        most = max(most, len(said) - read.count(b"text_delta"))
    assert read.count(b"text_delta") == 10 * MOST_WAITING
    assert most <= MOST_WAITING + 5


def test_a_client_that_left_ends_the_attempt_though_nothing_is_written(line, streams):
    chain = FakeChain([ANSWER])
    ended = []

    def say(request, cancel):
        yield TextDelta("x")
        ended.append(cancel.wait(5))

    chain.drivers["a"].stream = say
    relay = Relay(chain.gateway, REQUEST, line[0], streams)
    assert next(relay) == GREETING
    assert next(relay)
    line[1].close()
    wait_for(lambda: ended)
    assert ended == [True]


def test_a_stream_is_never_silent_for_longer_than_twenty_seconds(streams):
    assert Streams(heartbeat_s=300)._heartbeat_s == 20


def test_an_attempts_end_is_logged_with_the_request_id(line, streams, caplog):
    request = ModelRequest((Message("user", "Hi"),), request_id="r-1", turn_id="t-1")
    with caplog.at_level(logging.INFO, logger="timothy.gateway"):
        list(Relay(FakeChain([fails("auth_failed")]).gateway, request, line[0], streams))
    assert "request r-1 turn t-1: a error auth_failed" in caplog.text
