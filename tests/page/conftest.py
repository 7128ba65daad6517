"""A real server with a scripted provider, a real Chromium, and a wire between them that can be cut."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.page.wire import Wire
from tests.stories.server import Server

PATIENCE_MS = 30_000  # a bound for what never comes: how soon something comes depends on the machine
# The first that is there. The shell draws no window around a page: it takes a third of the processor time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CONFIG = """
[turn]
checkpoint_s = 0.1
[[providers]]
name = "play"
driver = "scripted"
model = "play-1"
script = "script.json"
"""
GATES = ("one", "two", "three")
HOSTILE = json.loads((Path(__file__).parent / "hostile.json").read_text(encoding="utf-8"))
LINE = "A line of an answer that is a megabyte long. " * 10 + "\n\n"
WORDS = "Here are words that come one at a time, as they would from a model. "
MARKDOWN = (
    "## Heading\n\nSome **bold** words.\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
    "```python\ndef f():\n    return 1\n```\n\n1. one\n2. two\n"
)


def script(home: Path) -> dict[str, Any]:
    """What the provider does, by a word in the message. A gate holds a turn until `home/gate-NAME` exists."""
    gates: list[tuple[str, list[dict[str, Any]]]] = [
        (f"gate {name}", [{"text": "before "}, {"wait_file": str(home / f"gate-{name}")}, {"text": "after"}])
        for name in GATES
    ]
    gates.insert(
        0, ("then fail", [*gates[0][1][:2], {"error": {"code": "overloaded", "message": "no room now"}}])
    )
    rules: list[tuple[str, list[dict[str, Any]]]] = [
        *gates,
        ("endlessly", [{"text": "Here are words ", "repeat": 10_000, "delay_s": 0.05}]),
        ("slowly", [{"text": word + " ", "delay_s": 0.01} for word in (WORDS * 4).split()]),
        ("markdown", [{"text": MARKDOWN}]),
        ("hostile", [{"text": text + "\n\n"} for text in HOSTILE]),
        ("megabyte", [{"text": LINE, "repeat": 2_300}]),
        ("many tokens", [{"text": "token ", "repeat": 100}, {"text": "line\n\n"}] * 200),
        (
            "half an answer",
            [{"text": "Half of "}, {"error": {"code": "overloaded", "message": "no room now"}}],
        ),
        ("cut", [{"text": "Half of "}, {"cut": True}]),
        ("fail", [{"error": {"code": "bad_request", "message": "the provider says: no"}}]),
        ("short", [{"text": "Shortened"}, {"incomplete": "length"}]),
        ("think", [{"reasoning": "Let me think."}, {"text": "Thought."}]),
        ("calculate", [{"call": {"name": "calculate", "input": {"expression": "6*7"}}}]),
        ("write a file", [{"call": {"name": "write_file", "input": {"path": "a.txt", "content": "x"}}}]),
    ]
    return {
        "rules": [{"match": match, "steps": steps} for match, steps in rules]
        + [{"tool_result": "", "steps": [{"text": "The tool said: "}, {"echo": True}]}],
        "turns": [[{"text": "You wrote: "}, {"echo": True}]],
    }


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all of the page's tests."""
    running = play(tmp_path_factory.mktemp("page")).start()
    yield running
    running.terminate()


def play(home: Path, more: str = "") -> Server:
    """A server, not started yet, whose provider plays the script; `more` is configured besides."""
    server = Server("gevent", home, CONFIG + more)
    (home / "script.json").write_text(json.dumps(script(home)))
    return server


@pytest.fixture(autouse=True)
def closed_gates(request: pytest.FixtureRequest) -> Iterator[None]:
    """No gate stays open for another test, and no turn stays behind a closed one."""
    yield
    if "server" in request.fixturenames:
        home = request.getfixturevalue("server").home
        for name in GATES:
            (home / f"gate-{name}").unlink(missing_ok=True)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's Chromium. It costs time as long as it is open, also in the hands of nobody."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


Open = Callable[..., "Visitor"]


@pytest.fixture
def visit(chromium: Browser, server: Server) -> Iterator[Open]:
    """Open the page in a browser of its own (no cookies yet), signed in by the link; see Visitor."""
    contexts: list[BrowserContext] = []
    pages: list[Visitor] = []

    def open_page(url: str = "", *, signed_in: bool = True, **options: Any) -> Visitor:
        context = chromium.new_context(**{"viewport": {"width": 1100, "height": 750}, **options})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        visitor = Visitor(context.new_page(), url or server.url, server.token)
        pages.append(visitor)
        if signed_in:
            visitor.sign_in()
        return visitor

    yield open_page
    faults = [fault for visitor in pages for fault in visitor.faults]
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A way to the server that can be frozen, cut and closed."""
    with Wire(server.url) as running:
        yield running


class Visitor:
    """A person at the page: what they do, and what they see."""

    def __init__(self, page: Page, url: str, token: str) -> None:
        self.page = page
        self.url = url
        self.token = token
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("console", self._console)

    def _console(self, message: Any) -> None:
        # the browser's own word for a request that was refused or had no answer; the page's is an error
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(message.text)

    def sign_in(self) -> None:
        self.page.goto(f"{self.url}/#token={self.token}")
        self.page.wait_for_selector("#message:visible")
        self.page.wait_for_selector(".try")

    def open(self, session: str) -> None:
        self.page.goto(f"{self.url}/#/s/{session}")
        self.page.wait_for_selector(".turn")

    def another_tab(self, session: str = "") -> "Visitor":
        """A tab of the same browser."""
        visitor = Visitor(self.page.context.new_page(), self.url, self.token)
        visitor.faults = self.faults
        visitor.page.goto(f"{self.url}/#/{f's/{session}' if session else ''}")
        visitor.page.wait_for_selector("#message:visible")
        return visitor

    def send(self, text: str) -> str:
        """Type and send; the session's id, once the server has the message."""
        self.page.fill("#message", text)
        self.page.press("#message", "Enter")
        expect(self.page.locator("#message")).to_have_value("")
        return self.session

    @property
    def session(self) -> str:
        return self.page.url.partition("#/s/")[2]

    def sees(self, text: str, timeout: float = PATIENCE_MS) -> None:
        """Wait until the last turn shows `text`."""
        expect(self.page.locator(".turn").last).to_contain_text(text, timeout=timeout)

    def answer(self) -> str:
        """The words of the last answer, as they stand there."""
        return str(
            self.page.evaluate("document.querySelector('.turn:last-child .answer')?.textContent ?? ''")
        )

    def is_running(self) -> bool:
        return self.page.locator(".turn.is-live").count() > 0

    def ended(self, timeout: float = PATIENCE_MS) -> None:
        """Wait until the turn is over and nothing says that it runs."""
        expect(self.page.locator(".turn").last.locator(".foot .actions button")).not_to_have_count(
            0, timeout=timeout
        )
        expect(self.page.locator(".turn.is-live")).to_have_count(0)
        expect(self.page.locator("#stop")).to_be_hidden()

    def hide(self, hidden: bool) -> None:
        """As if the tab went behind another one, or came back."""
        self.page.evaluate(
            """hidden => {
                Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
                document.dispatchEvent(new Event('visibilitychange'));
            }""",
            hidden,
        )
