"""Heavy, hostile and narrow: the page stays quick, harmless and readable."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.page.conftest import HOSTILE, Open, Visitor
from tests.stories.server import Server

pytestmark = pytest.mark.browser

STATIC = Path(__file__).resolve().parents[2] / "web" / "static"


def test_the_page_and_its_modules_are_under_150_kb() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) < 150_000


@contextmanager
def busy(visitor: Visitor) -> Iterator[list[float]]:
    """Milliseconds of processor time that each task of the page's main thread took, known at the end.

    A task that the machine let wait, because others use it, is not longer for it.
    """
    tasks: list[float] = []
    browser = visitor.page.context.browser
    assert browser is not None
    browser.start_tracing(page=visitor.page, categories=["disabled-by-default-devtools.timeline"])
    yield tasks
    events = json.loads(browser.stop_tracing())["traceEvents"]
    tasks += [event["tdur"] / 1000 for event in events if event["name"] == "RunTask" and "tdur" in event]


def test_twenty_thousand_tokens_never_block_the_page(visit: Open) -> None:
    visitor = visit()
    with busy(visitor) as tasks:
        visitor.send("many tokens")
        visitor.ended()
    assert visitor.answer().count("token") == 20_000
    assert len(tasks) > 100
    assert max(tasks) <= 100


def test_a_megabyte_is_shown_whole_and_the_page_stays_quick(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("megabyte")
    visitor.ended()
    assert visitor.answer().count("is a megabyte long.") == 23_000
    with busy(visitor) as tasks:
        visitor.page.reload()
        visitor.sees("is a megabyte long.")
        visitor.page.fill("#message", "still quick")
    assert max(tasks) <= 1000
    assert len(server.read(session)["items"][-1]["text"]) > 1_000_000


def test_hostile_markdown_does_nothing_in_the_browser(visit: Open) -> None:
    visitor = visit()
    elsewhere: list[str] = []
    visitor.page.on(
        "request", lambda request: elsewhere.append(request.url) if visitor.url not in request.url else None
    )
    visitor.send("hostile")
    visitor.ended()
    visitor.sees(HOSTILE[0])
    visitor.page.reload()
    visitor.sees(HOSTILE[0])
    harm = visitor.page.evaluate(
        "() => document.querySelectorAll('.answer :is(script, img, iframe, object, embed, form, input, style,"
        " link, meta, base, video, [onerror], [onload], [onclick], [style])').length"
    )
    assert harm == 0
    assert elsewhere == []


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
STATES = ("markdown", "think first", "calculate it", "half an answer")


def test_axe_finds_nothing_serious(visit: Open) -> None:
    """In the empty page, in one conversation that comes from state to state, and in the windows over it."""
    visitor = visit()
    assert serious_in_any_colours(visitor) == []
    for message in STATES:
        visitor.send(message)
        visitor.ended()
    visitor.send("write a file")
    expect(visitor.page.locator(".permission.is-open")).to_be_visible()
    assert serious_in_any_colours(visitor) == []
    visitor.page.click("[data-decision=deny]")
    visitor.ended()


def serious_in_any_colours(visitor: Visitor) -> list[dict[str, Any]]:
    found = []
    for scheme in SCHEMES:
        visitor.page.emulate_media(color_scheme=scheme)
        found += _serious(visitor)
    return found


def test_axe_finds_nothing_serious_in_the_windows(visit: Open) -> None:
    visitor = visit()
    visitor.page.click("#open-keys")
    assert _serious(visitor) == []
    visitor.page.keyboard.press("Escape")
    visitor.page.click("#open-settings")
    for tab in visitor.page.locator("[role=tab]").all():
        tab.click()
        expect(visitor.page.locator(".settings-body")).not_to_contain_text("asking the server")
        assert _serious(visitor) == []


def _serious(visitor: Visitor) -> list[dict[str, Any]]:
    found = Axe().run(visitor.page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        {"rule": one["id"], "help": one["help"], "where": [node["html"][:200] for node in one["nodes"]]}
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_everything_without_scrolling_sideways(visit: Open, width: int) -> None:
    visitor = visit(viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    visitor.send("markdown")
    visitor.ended()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    small = visitor.page.evaluate(
        """() => [...document.querySelectorAll('button, select, #sessions a, summary')]
            .filter(one => one.checkVisibility())
            .map(one => [one.id || one.className || one.textContent, one.getBoundingClientRect()])
            .filter(([, box]) => box.height > 0 && box.height < 43.5)
            .map(([name, box]) => `${name} ${box.height}`)"""
    )
    assert small == []
    visitor.page.click("#drawer")
    expect(visitor.page.locator("#search")).to_be_focused()
    visitor.page.locator("#sessions a").first.click()
    expect(visitor.page.locator("#shade")).to_be_hidden()


def test_everything_can_be_done_by_keyboard(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.send("first one")
    visitor.ended()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator("#title")).to_have_text("New conversation")
    page.keyboard.type("gate three")
    page.keyboard.press("Enter")
    visitor.sees("before")
    page.keyboard.press("Escape")
    visitor.sees("stopped by you")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    expect(page.locator(".edit-form textarea")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#sessions a").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    visitor.sees("first one")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("new chat")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_the_live_region_does_not_read_every_token(visit: Open) -> None:
    visitor = visit()
    visitor.send("slowly please")
    visitor.ended()
    said = visitor.page.locator("#announce p").all_inner_texts()
    assert len(said) <= 3
    assert "Here are words" not in json.dumps(said)


def test_right_to_left_text_runs_from_the_right(visit: Open) -> None:
    visitor = visit()
    visitor.send("مرحبا بالعالم")
    visitor.ended()
    direction = "element => getComputedStyle(element).direction"
    assert visitor.page.locator(".user-text").last.evaluate(direction) == "rtl"
    visitor.page.fill("#message", "שלום")
    assert visitor.page.locator("#message").evaluate(direction) == "rtl"
