"""The page shows what is true: whatever the network, the other tabs and the server do meanwhile."""

import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open, play
from tests.page.wire import Wire
from tests.stories.server import Server, eventually

pytestmark = pytest.mark.browser
SOON_MS = 3000  # a second, and what a busy machine may add; a page that rests asks only every 5 s


def test_the_seventh_tab_loads_while_a_turn_runs(visit: Open, server: Server) -> None:
    first = visit()
    session = first.send("gate one")
    first.sees("before")
    tabs = [first.another_tab(session) for _ in range(6)]
    for tab in tabs:
        tab.sees("before")
    (server.home / "gate-one").touch()
    for tab in [first, *tabs]:
        tab.sees("before after")
        tab.ended()


def test_a_stop_in_one_window_is_seen_in_another_within_a_second(visit: Open) -> None:
    first, second = visit(), visit()
    session = first.send("gate one")
    second.open(session)
    second.sees("before")
    first.page.click("#stop")
    first.ended()
    second.ended(SOON_MS)
    second.sees("stopped by you")


def test_a_turn_that_began_in_another_window_is_seen_within_a_second(visit: Open) -> None:
    first, second = visit(), visit()
    session = first.send("hello")
    first.ended()
    second.open(session)
    first.send("gate one")
    second.sees("before", SOON_MS)
    expect(second.page.locator("#liveness")).to_have_text("running")
    first.page.click("#stop")
    second.ended()


def test_a_permission_answered_in_one_window_is_answered_in_all(visit: Open) -> None:
    first, second = visit(), visit()
    session = first.send("write a file")
    second.open(session)
    expect(second.page.locator(".permission.is-open")).to_be_visible()
    first.page.click(".permission.is-open [data-decision=deny]")
    expect(second.page.locator(".permission.is-open")).to_have_count(0)
    second.ended()
    first.ended()


def test_a_second_send_is_refused_its_text_is_kept_and_the_turn_is_followed(
    visit: Open, server: Server
) -> None:
    first, second = visit(), visit()
    session = first.send("hello")
    first.ended()
    second.open(session)
    second.page.route("**/v1/sessions?*", lambda route: route.abort())  # it does not hear of the turn
    first.send("gate one")
    first.sees("before")
    second.page.fill("#message", "my own words")
    second.page.press("#message", "Enter")
    expect(second.page.locator(".toast")).to_contain_text("already running")
    expect(second.page.locator("#message")).to_have_value("my own words")
    second.sees("before")
    (server.home / "gate-one").touch()
    second.sees("before after")
    second.ended()
    expect(second.page.locator("#message")).to_have_value("my own words")


def test_a_stream_that_breaks_goes_on_where_it_was(visit: Open, server: Server, wire: Wire) -> None:
    visitor = visit(wire.url)
    visitor.send("gate one")
    visitor.sees("before")
    wire.cut()
    (server.home / "gate-one").touch()
    visitor.sees("before after")
    visitor.ended()
    assert visitor.answer().count("before") == 1


def test_five_tries_then_a_button(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("gate one")
    visitor.sees("before")
    tries: list[float] = []

    def refuse(route: object) -> None:
        tries.append(time.monotonic())
        route.abort()  # type: ignore[attr-defined]

    visitor.page.clock.install()
    visitor.page.route("**/live*", refuse)
    visitor.page.reload()
    button = visitor.page.locator("#reconnect")
    for _ in range(60):
        visitor.page.clock.run_for(500)
        if button.is_visible():
            break
    assert len(tries) == 6  # the first, and five more
    visitor.page.clock.run_for(20_000)
    assert len(tries) == 6
    visitor.page.unroute("**/live*")
    button.click()
    visitor.sees("before")
    expect(button).to_be_hidden()
    server.stop(session)
    visitor.page.clock.run_for(2000)
    visitor.ended()


def test_offline_and_online_again(visit: Open, server: Server) -> None:
    visitor = visit()
    visitor.send("gate one")
    visitor.sees("before")
    visitor.page.context.set_offline(True)
    expect(visitor.page.locator("#liveness")).to_have_text("offline")
    visitor.page.fill("#message", "written without a network")
    (server.home / "gate-one").touch()
    visitor.page.context.set_offline(False)
    visitor.sees("before after")
    visitor.ended()
    expect(visitor.page.locator("#liveness")).to_have_text("")
    expect(visitor.page.locator("#message")).to_have_value("written without a network")


def test_a_message_that_never_arrived_stays_marked_and_goes_once(
    visit: Open, server: Server, wire: Wire
) -> None:
    visitor = visit(wire.url)
    session = visitor.send("hello")
    visitor.ended()
    wire.down()
    visitor.page.clock.install()
    visitor.page.fill("#message", "precious words")
    visitor.page.press("#message", "Enter")
    unsent = visitor.page.locator("#unsent")
    for _ in range(20):  # it is tried again for a few seconds
        visitor.page.clock.run_for(500)
        if unsent.is_visible():
            break
    expect(unsent).to_contain_text("Not sent")
    expect(visitor.page.locator("#message")).to_have_value("precious words")
    wire.up()
    visitor.page.press("#message", "Enter")
    expect(visitor.page.locator("#message")).to_have_value("")
    visitor.page.clock.run_for(1000)
    visitor.sees("You wrote: precious words")
    expect(unsent).to_be_hidden()
    texts = [item["text"] for item in server.read(session)["items"] if item["kind"] == "user"]
    assert texts == ["hello", "precious words"]


def test_a_message_whose_answer_was_lost_is_not_sent_twice(visit: Open, server: Server, wire: Wire) -> None:
    visitor = visit(wire.url)
    session = visitor.send("hello")
    visitor.ended()
    wire.freeze()  # the message arrives, the server's word does not
    visitor.page.fill("#message", "gate two")
    visitor.page.press("#message", "Enter")
    eventually(lambda: server.read(session)["turn_active"])
    wire.cut()
    wire.thaw()
    visitor.sees("before")
    (server.home / "gate-two").touch()
    visitor.sees("before after")
    texts = [item["text"] for item in server.read(session)["items"] if item["kind"] == "user"]
    assert texts == ["hello", "gate two"]


def test_a_tab_that_was_frozen_at_the_last_event_thaws_to_the_truth(
    visit: Open, server: Server, wire: Wire
) -> None:
    visitor = visit(wire.url)
    session = visitor.send("gate one")
    visitor.sees("before")
    wire.freeze()  # nothing is heard of the end
    (server.home / "gate-one").touch()
    eventually(lambda: not server.read(session)["turn_active"])
    wire.cut()
    wire.thaw()
    visitor.hide(True)
    visitor.hide(False)
    visitor.sees("before after")
    visitor.ended()


STREAM_THAT_DIES = """
const real = fetch;
window.fetch = async (path, options) => {
    const response = await real(path, options);
    if (!path.endsWith('/messages')) return response;
    const line = new TransformStream({transform: (bytes, to) => { if (!window.isDead) to.enqueue(bytes); }});
    return new Response(response.body.pipeThrough(line), response);
};
"""


def test_a_stream_that_died_in_its_sleep_is_taken_up_when_somebody_looks(visit: Open, server: Server) -> None:
    visitor = visit(signed_in=False)
    visitor.page.add_init_script(STREAM_THAT_DIES)
    visitor.sign_in()
    visitor.page.clock.install()
    session = visitor.send("endlessly please")
    visitor.page.clock.run_for(500)
    visitor.sees("Here are words")
    visitor.page.evaluate("window.isDead = true")
    heard = server.read(session)["turn"]["last_seq"]
    eventually(lambda: server.read(session)["turn"]["last_seq"] > heard)
    visitor.page.clock.run_for(4000)
    shown = len(visitor.answer())
    visitor.hide(True)
    visitor.hide(False)
    eventually(lambda: visitor.page.clock.run_for(100) or len(visitor.answer()) > shown + 100)
    assert visitor.is_running()
    server.stop(session)


def test_a_hidden_tab_holds_no_stream_and_comes_back_by_its_cursor(visit: Open, server: Server) -> None:
    visitor = visit()
    visitor.page.clock.install()
    visitor.send("gate one")
    visitor.page.clock.run_for(500)
    visitor.sees("before")
    dropped: list[str] = []
    asked: list[str] = []
    visitor.page.on("requestfailed", lambda request: dropped.append(request.url))
    visitor.page.on("request", lambda request: asked.append(request.url) if "/live" in request.url else None)
    visitor.hide(True)
    visitor.page.clock.run_for(6000)
    eventually(lambda: visitor.page.evaluate("1") and dropped)
    assert dropped[0].endswith("/messages")
    assert asked == []
    visitor.hide(False)
    eventually(lambda: visitor.page.evaluate("1") and asked)
    assert re.search(r"after=[0-9a-f-]{36}%3A\d+$", asked[0])
    (server.home / "gate-one").touch()
    visitor.sees("before after")


def test_a_hidden_tab_tells_in_its_title_that_the_turn_ended(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("gate one")
    visitor.sees("before")
    visitor.hide(True)
    (server.home / "gate-one").touch()
    eventually(lambda: not server.read(session)["turn_active"])
    expect(visitor.page).to_have_title(re.compile("^done"))
    visitor.hide(False)
    expect(visitor.page).not_to_have_title(re.compile("^done"))


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may kill."""
    server = play(tmp_path).start()
    yield server
    if server.process is not None and server.process.poll() is None:
        server.terminate()


def test_a_killed_server_comes_back_and_the_turn_is_interrupted(visit: Open, mortal: Server) -> None:
    with Wire(mortal.url) as wire:
        visitor = visit(wire.url, signed_in=False)
        visitor.token = mortal.token
        visitor.sign_in()
        visitor.send("gate one")
        visitor.sees("before")
        eventually(lambda: "before" in str(_pending(mortal)))
        mortal.kill()
        expect(visitor.page.locator("#connection")).to_contain_text("lost")
        mortal.start()
        wire.to = mortal.url
        visitor.sees("interrupted: the server restarted", 15_000)
        visitor.sees("before")
        visitor.ended()


def _pending(server: Server) -> object:
    with sqlite3.connect(f"file:{server.home / 'timothy.db'}?mode=ro", uri=True) as database:
        return database.execute("SELECT * FROM pending_states").fetchall()
