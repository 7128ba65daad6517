"""Who watches nothing is told elsewhere: when a turn ends, fails, or waits."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.listener import Listener
from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server, eventually

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as running:
        yield running


def unwatched(server: Server, provider: FakeProvider, behaviour: Behaviour | str) -> str:
    provider.behave("fake", behaviour)
    session = server.session("greetings")
    server.call("POST", f"/v1/sessions/{session}/messages", {"message": "hi"}, Prefer="respond-async")
    return session


def test_an_unwatched_turn_tells_how_it_ended(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    notify = f'[notify]\nwebhook = "{listener.url}/hook"\nntfy = "{listener.url}/topic"\n'
    server = servers(TIMERS + notify + entry(provider))
    session = unwatched(server, provider, Behaviour(text="all well"))
    eventually(lambda: len(listener.calls) == 2)
    hook, topic = sorted(listener.calls)
    told = json.loads(hook[2])
    assert (hook[0], told["event"], told["session_id"], told["title"], told["text"]) == (
        "/hook",
        "completed",
        session,
        "greetings",
        "all well",
    )
    assert topic == ("/topic", "Timothy answered", "all well")


def test_a_turn_that_waits_for_a_person_says_for_what(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    server = servers(TIMERS + f'[notify]\nwebhook = "{listener.url}/hook"\n' + entry(provider))
    session = unwatched(server, provider, Behaviour(tools=(WRITE,), text="done"))
    eventually(lambda: listener.calls)
    told = json.loads(listener.calls[0][2])
    assert (told["event"], told["session_id"]) == ("waiting", session)
    assert told["text"].startswith("write_file: ")


def test_a_watched_turn_calls_nobody(servers: Start, provider: FakeProvider, listener: Listener) -> None:
    server = servers(TIMERS + f'[notify]\nwebhook = "{listener.url}/hook"\n' + entry(provider))
    provider.behave("fake", Behaviour(hold="end"), Behaviour())
    tab = server.send(server.session(), "hi")
    tab.until("text_delta")
    provider.release("fake")
    assert tab.rest().end == "done"
    session = unwatched(server, provider, Behaviour())
    eventually(lambda: listener.calls)
    assert [json.loads(body)["session_id"] for _, _, body in listener.calls] == [session]


def test_an_address_that_fails_costs_no_turn_anything(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    server = servers(TIMERS + f'[notify]\nwebhook = "{listener.url}/broken"\n' + entry(provider))
    session = unwatched(server, provider, Behaviour())
    eventually(lambda: "the notification to" in server.words())
    assert server.read(session)["items"][-1]["kind"] == "assistant"


def set_to(server: Server, **addresses: str | None) -> dict[str, Any]:
    """What holds once these are set."""
    answer = server.call("PUT", "/v1/notifications", addresses)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def hooked(listener: Listener) -> list[tuple[str, str]]:
    """(path, event) of every call of a webhook."""
    return [(path, json.loads(body)["event"]) for path, title, body in listener.calls if title is None]


def test_an_address_that_is_set_is_called_from_then_on_when_a_turn_ends_fails_or_waits(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    server = servers(TIMERS + entry(provider))
    server.idle(unwatched(server, provider, Behaviour(text="nobody hears this")))
    set_to(server, webhook=f"{listener.url}/hook", ntfy=f"{listener.url}/topic")
    unwatched(server, provider, Behaviour(text="all well"))
    eventually(lambda: len(listener.calls) == 2)
    assert ("/topic", "Timothy answered", "all well") in listener.calls
    unwatched(server, provider, "unauthorized")
    eventually(lambda: len(listener.calls) == 4)
    session = unwatched(server, provider, Behaviour(tools=(WRITE,), text="done"))
    eventually(lambda: len(listener.calls) == 6)
    assert hooked(listener) == [("/hook", "completed"), ("/hook", "failed"), ("/hook", "waiting")]
    set_to(server, webhook=None, ntfy=None)
    server.stop(session)
    server.idle(unwatched(server, provider, Behaviour(text="nobody hears this, either")))
    assert len(listener.calls) == 6


def test_addresses_outlive_a_kill_and_so_does_their_removal(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    server = servers(TIMERS + entry(provider))
    shown = set_to(server, webhook=f"{listener.url}/hook", ntfy=f"{listener.url}/topic")
    server.kill()
    server.start()
    assert server.get("/v1/notifications") == shown
    unwatched(server, provider, Behaviour())
    eventually(lambda: len(listener.calls) == 2)
    assert set_to(server, ntfy=None)["webhook"] == shown["webhook"]
    server.kill()
    server.start()
    assert server.get("/v1/notifications") == {**shown, "ntfy": None}


def test_a_turn_that_a_crash_ended_is_told_of_by_the_next_start(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    server = servers(TIMERS + entry(provider))
    set_to(server, webhook=f"{listener.url}/hook")
    provider.behave("fake", Behaviour(hold="end"))
    session = server.session("half a story")
    server.send(session).until("text_delta")
    server.kill()
    server.start()
    eventually(lambda: listener.calls)
    told = json.loads(listener.calls[0][2])
    assert (told["event"], told["session_id"], told["title"]) == ("interrupted", session, "half a story")


def test_the_addresses_of_the_file_go_on_beside_those_that_are_set(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    file = f'[notify]\nwebhook = "{listener.url}/file"\n'
    server = servers(TIMERS + file + entry(provider))
    configured = {"webhook": f"{listener.url}/file", "ntfy": None, "always": False}
    nothing = {"webhook": None, "ntfy": None, "configured": configured}
    assert server.get("/v1/notifications") == nothing
    set_to(server, webhook=f"{listener.url}/set")
    unwatched(server, provider, Behaviour())
    eventually(lambda: len(listener.calls) == 2)
    assert sorted(hooked(listener)) == [("/file", "completed"), ("/set", "completed")]
    listener.calls.clear()
    set_to(server, webhook=f"{listener.url}/file")  # the same address twice is one address
    results = server.call("POST", "/v1/notifications/test").json()["results"]
    assert [(one["address"], one["source"]) for one in results] == [(f"{listener.url}/file", "configuration")]
    assert set_to(server, webhook=None) == nothing
    assert hooked(listener) == [("/file", "test")]


def test_a_test_says_what_came_back_from_every_address(
    servers: Start, provider: FakeProvider, listener: Listener
) -> None:
    server = servers(TIMERS + entry(provider))
    assert server.call("POST", "/v1/notifications/test").json() == {"results": []}
    set_to(server, webhook=f"{listener.url}/broken", ntfy=f"{listener.url}/topic")
    answer = server.call("POST", "/v1/notifications/test")
    broken, topic = answer.json()["results"]
    assert answer.status_code == 200
    assert (broken["ok"], broken["status"], broken["code"]) == (False, 500, "refused")
    assert (topic["ok"], topic["status"], topic["code"], topic["message"]) == (True, 204, None, None)
    told = {path: (title, body) for path, title, body in listener.calls}
    assert told["/topic"][0] == "A test from Timothy"
    sent = json.loads(told["/broken"][1])
    assert (sent["event"], sent["session_id"], sent["turn_id"]) == ("test", None, None)
    unwatched(server, provider, Behaviour())
    eventually(lambda: "it answered 500" in server.words())
    assert "/broken" not in server.words()  # where an address has its secret
