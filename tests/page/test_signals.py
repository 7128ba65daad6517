"""Somebody who looks elsewhere is told that a turn ended, or waits: by the title, a sound, a notification."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open, Visitor
from tests.stories.server import Server, eventually

pytestmark = pytest.mark.browser

# What the browser would show and play is written down; a phone's browser has no such constructor for pages.
RECORD = """
window.told = [];
window.beeps = 0;
window.Notification = class {
    static permission = 'granted';
    static requestPermission = async () => 'granted';
    constructor(title, options) {
        if (window.isPhone) throw new TypeError('Illegal constructor');
        window.told.push([title, options.body]);
        window.lastTold = this;
    }
    close() {}
};
window.AudioContext = class {
    currentTime = 0;
    destination = {};
    createGain() { return {gain: {}, connect: to => to}; }
    createOscillator() {
        return {connect: to => to, start: () => (window.beeps += 1), stop() {}, addEventListener() {}};
    }
};
"""


def elsewhere(visit: Open, **wanted: bool) -> Visitor:
    """A visitor whose tab is hidden, with a turn that runs in it; `wanted` are choices of the settings."""
    visitor = visit(signed_in=False)
    visitor.page.add_init_script(RECORD)
    visitor.sign_in()
    visitor.page.evaluate("wanted => localStorage.setItem('timothy:look', JSON.stringify(wanted))", wanted)
    return visitor


def told(visitor: Visitor) -> Any:
    return visitor.page.evaluate("[window.told, window.beeps]")


@pytest.mark.parametrize(
    ("message", "words"),
    [("gate one", "done"), ("gate one, then fail", "failed")],
)
def test_a_hidden_tab_says_how_its_turn_ended(visit: Open, server: Server, message: str, words: str) -> None:
    visitor = elsewhere(visit, sound=True, notify=True)
    visitor.send(message)
    visitor.sees("before")
    visitor.hide(True)
    (server.home / "gate-one").touch()
    expect(visitor.page).to_have_title(re.compile(f"^{words} · "))
    eventually(lambda: told(visitor) == [[[f"Timothy: {words}", message]], 1])
    visitor.hide(False)
    expect(visitor.page).not_to_have_title(re.compile(f"^{words}"))


def test_a_hidden_tab_says_that_its_turn_waits_and_a_click_leads_there(visit: Open) -> None:
    visitor = elsewhere(visit, sound=True, notify=True)
    session = visitor.send("hello")
    visitor.ended()
    visitor.page.fill("#message", "write a file")
    visitor.hide(True)  # the question must not come before the person is gone
    visitor.page.evaluate("document.getElementById('composer').requestSubmit()")
    expect(visitor.page).to_have_title(re.compile("^waiting for you · "))
    eventually(lambda: told(visitor) == [[["Timothy: waiting for you", "hello"]], 1])
    visitor.hide(False)
    visitor.page.click("#new")
    expect(visitor.page.locator("#title")).to_have_text("New conversation")
    visitor.page.evaluate("window.lastTold.onclick()")
    expect(visitor.page).to_have_url(re.compile(session))
    visitor.page.click(".permission.is-open [data-decision=deny]")
    visitor.ended()


def test_nothing_is_played_or_shown_that_was_not_asked_for(visit: Open, server: Server) -> None:
    visitor = elsewhere(visit)
    visitor.send("gate one")
    visitor.sees("before")
    visitor.hide(True)
    (server.home / "gate-one").touch()
    expect(visitor.page).to_have_title(re.compile("^done · "))
    assert told(visitor) == [[], 0]


def test_somebody_who_looks_is_not_told_what_they_see(visit: Open) -> None:
    visitor = elsewhere(visit, sound=True, notify=True)
    visitor.send("hello")
    visitor.ended()
    expect(visitor.page).to_have_title("hello · Timothy")
    assert told(visitor) == [[], 0]


def test_a_phone_without_notifications_of_pages_still_ends_its_turn(visit: Open, server: Server) -> None:
    visitor = elsewhere(visit, notify=True)
    visitor.page.evaluate("window.isPhone = true")
    visitor.send("gate one")
    visitor.sees("before")
    visitor.hide(True)
    (server.home / "gate-one").touch()
    expect(visitor.page).to_have_title(re.compile("^done · "))
    visitor.hide(False)
    visitor.sees("before after")
    visitor.ended()
    assert told(visitor) == [[], 0]


def test_a_tab_hidden_for_long_asks_now_and_then_and_still_says_it(visit: Open, server: Server) -> None:
    visitor = elsewhere(visit, notify=True)
    visitor.page.clock.install()
    visitor.send("gate one")
    visitor.page.clock.run_for(500)
    visitor.sees("before")
    visitor.hide(True)
    visitor.page.clock.run_for(6000)  # its stream is given up
    (server.home / "gate-one").touch()
    eventually(lambda: not server.read(visitor.session)["turn_active"])
    visitor.page.clock.run_for(6000)
    eventually(lambda: told(visitor)[0] == [["Timothy: done", "gate one"]])
