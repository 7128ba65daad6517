"""Small things to be cross about: a lost focus, lost words, a lost delete, a file that is not taken."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open, Visitor
from tests.stories.server import Server, eventually

pytestmark = pytest.mark.browser

BRING = """([how, name, type, text]) => {
    const files = new DataTransfer();
    files.items.add(new File([text], name, {type}));
    const options = {bubbles: true, cancelable: true};
    const event = how === 'paste'
        ? new ClipboardEvent('paste', {clipboardData: files, ...options})
        : new DragEvent('drop', {dataTransfer: files, ...options});
    document.getElementById('message').dispatchEvent(event);
}"""


def focused(visitor: Visitor) -> Any:
    return visitor.page.evaluate("document.activeElement.className || document.activeElement.id")


@pytest.mark.parametrize("how", ["paste", "drop"])
def test_a_file_is_pasted_or_dropped(visit: Open, server: Server, how: str) -> None:
    visitor = visit()
    visitor.page.evaluate(BRING, [how, "list.txt", "text/plain", "bread"])
    expect(visitor.page.locator("#files .chip")).to_contain_text("list.txt")
    session = visitor.send("what is on it?")
    visitor.ended()
    (kept,) = server.read(session)["items"][0]["attachments"]
    assert kept["name"] == "list.txt"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("long.txt", "long.txt is larger than 4 MB"),
        ("huge.png", "huge.png is a picture that cannot be read"),
    ],
)
def test_a_file_that_is_not_taken_is_told_why(visit: Open, tmp_path: Path, name: str, words: str) -> None:
    visitor = visit()
    (tmp_path / name).write_bytes(b"x" * 4_000_001)
    visitor.page.set_input_files("#picker", tmp_path / name)
    expect(visitor.page.locator(".toast")).to_contain_text(words)
    expect(visitor.page.locator("#files .chip")).to_have_count(0)


def test_a_message_too_large_with_its_files_stays_and_says_so(visit: Open, tmp_path: Path) -> None:
    visitor = visit()
    files = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for file in files:
        file.write_bytes(b"x" * 3_900_000)
    visitor.page.set_input_files("#picker", files)
    expect(visitor.page.locator("#files .chip")).to_have_count(3)
    visitor.page.fill("#message", "three files")
    visitor.page.press("#message", "Enter")
    expect(visitor.page.locator("#unsent")).to_contain_text("too large")
    expect(visitor.page.locator("#message")).to_have_value("three files")
    expect(visitor.page.locator("#files .chip")).to_have_count(3)


def test_a_tab_that_closes_in_the_time_to_undo_takes_its_delete_with_it(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("to be deleted")
    visitor.ended()
    visitor.page.locator(f"#sessions a[href='#/s/{session}']").press("Delete")
    expect(visitor.page.locator(".toast")).to_contain_text("Deleted")
    visitor.page.close()
    eventually(lambda: server.call("GET", f"/v1/sessions/{session}").status_code == 404)


def test_words_sent_to_a_new_conversation_arrive_though_somebody_turned_to_another(
    visit: Open, server: Server
) -> None:
    visitor = visit()
    old = visitor.send("an old one")
    visitor.ended()
    visitor.page.click("#new")
    held: list[Any] = []
    visitor.page.route("**/v1/sessions", lambda route: held.append(route))
    visitor.page.fill("#message", "slow words")
    visitor.page.press("#message", "Enter")
    eventually(lambda: visitor.page.evaluate("1") and held)
    visitor.open(old)
    expect(visitor.page.locator("#message")).to_have_value("")
    held[0].continue_()
    row = visitor.page.locator("#sessions li:has-text('slow words')")
    expect(row).to_have_count(1)
    assert visitor.session == old
    row.locator("a").click()
    visitor.sees("You wrote: slow words")
    expect(visitor.page.locator("#message")).to_have_value("")


def test_what_is_opened_or_edited_stays_in_sight(visit: Open) -> None:
    visitor = visit()
    for message in ("markdown", "markdown again", "think first"):
        visitor.send(message)
        visitor.ended()
    visitor.page.locator(".reasoning summary").last.click()
    expect(visitor.page.locator(".reasoning-body").last).to_be_in_viewport()
    visitor.page.locator(".user").nth(1).hover()
    visitor.page.locator(".user .edit").nth(1).click()
    expect(visitor.page.locator(".edit-form")).to_be_in_viewport(ratio=1)
    visitor.page.keyboard.press("Escape")
    assert focused(visitor) == "quiet edit"


def test_after_a_delete_the_keys_are_at_the_next_conversation(visit: Open) -> None:
    visitor = visit()
    for message in ("one", "two", "three"):
        visitor.page.click("#new")
        visitor.send(message)
        visitor.ended()
    row = visitor.page.locator("#sessions a")
    expect(row.nth(1)).to_contain_text("two")
    row.nth(1).press("Delete")
    expect(row.nth(1)).to_contain_text("one")
    expect(row.nth(1)).to_be_focused()


def test_nothing_moves_for_who_does_not_want_it(visit: Open) -> None:
    visitor = visit(reduced_motion="reduce")
    visitor.send("gate two")
    visitor.sees("before")
    moving = visitor.page.evaluate("document.getAnimations().length")
    assert moving == 0
    visitor.page.click("#stop")
    visitor.ended()


def test_at_twice_the_size_everything_is_there(visit: Open) -> None:
    visitor = visit(viewport={"width": 640, "height": 400}, device_scale_factor=2)
    visitor.send("markdown")
    visitor.ended()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 640
    expect(visitor.page.locator("#message")).to_be_in_viewport(ratio=1)
    visitor.page.click("#drawer")
    expect(visitor.page.locator("#open-settings")).to_be_in_viewport(ratio=1)
