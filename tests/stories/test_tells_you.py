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


@pytest.fixture(scope="module")
def server(shared_servers: Start, provider: FakeProvider) -> Server:
    """One of this module's own: what others leave behind would be told, too."""
    return shared_servers(TIMERS + entry(provider))


@pytest.fixture
def listener(server: Server) -> Iterator[Listener]:
    """It hears of this server only what is set by the test."""
    with Listener() as running:
        yield running
        set_to(server, webhook=None, ntfy=None)


def unwatched(server: Server, provider: FakeProvider, behaviour: Behaviour | str) -> str:
    provider.behave("fake", behaviour)
    session = server.session("greetings")
    server.call("POST", f"/v1/sessions/{session}/messages", {"message": "hi"}, Prefer="respond-async")
    return session


def test_an_unwatched_turn_tells_how_it_ended(
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
    set_to(server, webhook=f"{listener.url}/hook", ntfy=f"{listener.url}/topic")
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
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
    set_to(server, webhook=f"{listener.url}/hook")
    session = unwatched(server, provider, Behaviour(tools=(WRITE,), text="done"))
    eventually(lambda: listener.calls)
    told = json.loads(listener.calls[0][2])
    assert (told["event"], told["session_id"]) == ("waiting", session)
    assert told["text"].startswith("write_file: ")
    set_to(server, webhook=None)
    server.stop(session)


def test_a_watched_turn_calls_nobody(server: Server, provider: FakeProvider, listener: Listener) -> None:
    set_to(server, webhook=f"{listener.url}/hook")
    provider.behave("fake", Behaviour(hold="end"), Behaviour())
    tab = server.send(server.session(), "hi")
    tab.until("text_delta")
    provider.release("fake")
    assert tab.rest().end == "done"
    session = unwatched(server, provider, Behaviour())
    eventually(lambda: listener.calls)
    assert [json.loads(body)["session_id"] for _, _, body in listener.calls] == [session]


def test_an_address_that_fails_costs_no_turn_anything(
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
    set_to(server, webhook=f"{listener.url}/broken")
    before = len(server.words())
    session = unwatched(server, provider, Behaviour())
    eventually(lambda: "the notification to" in server.words()[before:])
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
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
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


def test_a_test_says_what_came_back_from_every_address(
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
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
    before = len(server.words())
    unwatched(server, provider, Behaviour())
    eventually(lambda: "it answered 500" in server.words()[before:])
    assert "/broken" not in server.words()  # where an address has its secret


def test_addresses_outlive_a_kill_and_hear_of_the_turn_that_it_ended(
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
    shown = set_to(server, webhook=f"{listener.url}/hook", ntfy=f"{listener.url}/topic")
    provider.behave("fake", Behaviour(hold="end"))
    session = server.session("half a story")
    server.send(session).until("text_delta")
    server.kill()
    server.start()
    assert server.get("/v1/notifications") == shown
    eventually(lambda: len(listener.calls) == 2)
    [told] = [json.loads(body) for path, _, body in listener.calls if path == "/hook"]
    assert (told["event"], told["session_id"], told["title"]) == ("interrupted", session, "half a story")


def test_a_removal_outlives_a_kill_and_the_addresses_of_the_file_go_on_beside_those_that_are_set(
    server: Server, provider: FakeProvider, listener: Listener
) -> None:
    """The last of this module: from here on the server has such a file."""
    set_to(server, webhook=f"{listener.url}/set", ntfy=f"{listener.url}/removed")
    assert set_to(server, ntfy=None)["webhook"] == f"{listener.url}/set"
    file = f'[notify]\nwebhook = "{listener.url}/file"\nntfy = "{listener.url}/topic"\n'
    server.kill()
    (server.home / "timothy.toml").write_text(TIMERS + file + entry(provider))
    server.start()
    configured = {"webhook": f"{listener.url}/file", "ntfy": f"{listener.url}/topic", "always": False}
    nothing = {"webhook": None, "ntfy": None, "configured": configured}
    assert server.get("/v1/notifications") == {**nothing, "webhook": f"{listener.url}/set"}
    unwatched(server, provider, Behaviour(text="all well"))
    eventually(lambda: len(listener.calls) == 3)
    assert sorted(hooked(listener)) == [("/file", "completed"), ("/set", "completed")]
    assert ("/topic", "Timothy answered", "all well") in listener.calls
    listener.calls.clear()
    set_to(server, webhook=f"{listener.url}/file")  # the same address twice is one address
    results = server.call("POST", "/v1/notifications/test").json()["results"]
    assert [(one["address"], one["source"]) for one in results] == [
        (f"{listener.url}/file", "configuration"),
        (f"{listener.url}/topic", "configuration"),
    ]
    assert set_to(server, webhook=None) == nothing
    assert hooked(listener) == [("/file", "test")]
