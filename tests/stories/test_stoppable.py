"""A stop is accepted at every point of a turn, never lost, closes the upstream, and ends in evidence."""

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server, eventually

POINTS = {
    "before the headers": (Behaviour(hold="headers"), ""),
    "before the first token": (Behaviour(tokens=3, hold=0), ""),
    "in reasoning": (Behaviour(reasoning=4, hold=2), ""),
    "in text": (Behaviour(tokens=6, hold=3), "t0 t1 t2 "),
    "before the finish reason": (Behaviour(tokens=2, hold="end"), "t0 t1 "),
    "at a stream that hangs after its text": (Behaviour(tokens=2, end="hang"), "t0 t1 "),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_stop_ends_the_turn_and_the_upstream(server: Server, provider: FakeProvider, point: str) -> None:
    behaviour, text = POINTS[point]
    provider.behave("fake", behaviour)
    session = server.session()
    tab = server.send(session)
    pieces = len(text.split()) + (2 if behaviour.reasoning else 0)
    eventually(lambda: (entries := provider.requests("fake")) and entries[0].pieces >= pieces)
    while tab.text != text:
        tab.until("text_delta")
    if behaviour.reasoning:
        tab.until("reasoning_delta")
    answer = server.stop(session)
    assert (answer.status_code, answer.json()) == (200, {"turn_id": tab.turn_id, "outcome": "stopped"})
    assert server.read(session)["turn_active"] is False
    evidence = server.evidence(session, tab.turn_id)
    assert evidence["payload"]["code"] == "stopped"
    assert evidence["kind"] == ("pending_state" if text else "turn_failed")
    assert evidence["payload"].get("text", "") == text
    assert tab.rest().end == "stopped"
    assert tab.meta["outcome"] == "stopped"
    assert provider.wait_ended("fake").ended == "client_closed"
    turn = server.turn(session, tab.turn_id)
    assert (turn["outcome"], turn["code"]) == ("stopped", "stopped")
    assert [attempt["status"] for attempt in turn["attempts"]] == ["stopped"]


def test_a_stop_right_after_the_send_is_never_lost(server: Server, provider: FakeProvider) -> None:
    """From the claim to the dial: the stop races the beginning, and always gets the turn."""
    provider.behave("fake", hold=0)
    for _ in range(25):
        session = server.session()
        answers: list[tuple[int, dict[str, str]]] = []

        def stop(session: str = session, answers: list[tuple[int, dict[str, str]]] = answers) -> None:
            while not answers or answers[-1][0] == 404:
                answer = server.stop(session)
                answers.append((answer.status_code, answer.json()))

        stopper = threading.Thread(target=stop)
        stopper.start()
        tab = server.send(session)
        stopper.join()
        assert answers[-1] == (200, {"turn_id": tab.turn_id, "outcome": "stopped"})
        assert tab.rest().end == "stopped"
        assert server.evidence(session, tab.turn_id)["kind"] == "turn_failed"
    eventually(lambda: all(entry.ended == "client_closed" for entry in provider.requests("fake")))


def test_a_stop_as_the_end_arrives_gets_the_one_end_there_is(server: Server, provider: FakeProvider) -> None:
    outcomes = set()
    for _ in range(25):
        provider.behave("fake", tokens=2, hold="end")
        session = server.session()
        tab = server.send(session)
        tab.until("text_delta")
        releaser = threading.Thread(target=provider.release, args=("fake",))
        releaser.start()
        answer = server.stop(session)
        releaser.join()
        tab.rest()
        turn = server.turn(session, tab.turn_id)
        outcomes.add(turn["outcome"])
        if answer.status_code == 200:
            assert answer.json() == {"turn_id": tab.turn_id, "outcome": turn["outcome"]}
        else:
            assert (answer.status_code, answer.json()["error"]) == (404, "no_active_turn")
            assert turn["outcome"] == "completed"
        assert tab.end == {"completed": "done", "stopped": "stopped"}[turn["outcome"]]
        kind = {"completed": "assistant_turn", "stopped": "pending_state"}[turn["outcome"]]
        assert server.evidence(session, tab.turn_id)["kind"] == kind
    assert outcomes <= {"completed", "stopped"}


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port whose queue of connections is full: one more is neither taken nor refused."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_a_stop_before_the_connection_stands_ends_the_wait(
    servers: Start, provider: FakeProvider, deaf: int
) -> None:
    server = servers(TIMERS + entry(provider, base_url=f"http://127.0.0.1:{deaf}/v1"))
    session = server.session()
    tab = server.send(session)
    tab.until("status", code="waiting_for_provider")
    answer = server.stop(session)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "stopped")
    assert tab.rest().end == "stopped"
    assert "retry" not in tab.kinds


def test_a_stop_between_two_tries_ends_the_wait(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", "overloaded", retry_after="30")
    session = server.session()
    tab = server.send(session)
    tab.until("retry")
    assert server.stop(session).json()["outcome"] == "stopped"
    assert tab.rest().end == "stopped"
    assert len(provider.requests("fake")) == 1


def test_any_tab_can_stop_and_all_see_it(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=5, hold=2)
    session = server.session()
    sender = server.send(session)
    sender.until("text_delta")
    watcher = server.live(session)
    watcher.until("text_delta")
    answers = [server.stop(session, sender.turn_id) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 404]
    assert sender.rest().end == watcher.rest().end == "stopped"
    assert [frame.raw for frame in sender.frames] == [frame.raw for frame in watcher.frames]


def test_a_stop_that_names_another_turn_stops_nothing(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=1)
    session = server.session()
    tab = server.send(session)
    other = "12345678-1234-4234-8234-123456789abc"
    answer = server.stop(session, other)
    assert (answer.status_code, answer.json()["error"]) == (409, "turn_mismatch")
    assert answer.json()["turn_id"] == tab.turn_id
    provider.release("fake")
    assert tab.rest().end == "done"


def test_a_stop_where_nothing_runs_says_so(server: Server) -> None:
    answer = server.stop(server.session())
    assert (answer.status_code, answer.json()["error"]) == (404, "no_active_turn")


def test_after_a_stop_the_next_send_runs_at_once(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tokens=3, hold=1), Behaviour())
    session = server.session()
    server.send(session, "first")
    provider.wait_request("fake")
    assert server.stop(session).status_code == 200
    assert server.send(session, "second").rest().end == "done"
    sent = json.dumps(provider.requests("fake")[1].body["messages"])
    assert "first" in sent and "second" in sent
