"""Who watches nothing is told elsewhere: when a turn ends, fails, or waits."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server, eventually

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}


class Listener:
    """A webhook and an ntfy topic on one port; `calls` are (path, title, body)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None, str]] = []
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                calls.append((self.path, self.headers["Title"], body))
                self.send_response(500 if self.path == "/broken" else 204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Silence."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def listener() -> Iterator[Listener]:
    running = Listener()
    yield running
    running.server.shutdown()
    running.server.server_close()


def unwatched(server: Server, provider: FakeProvider, behaviour: Behaviour) -> str:
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
    hook, topic = listener.calls
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
