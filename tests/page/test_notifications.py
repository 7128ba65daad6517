"""A person sets, tries and removes the addresses that tell of turns which nobody watches."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.fakes.listener import Listener
from tests.page.conftest import Open, Visitor, play
from tests.page.test_weight import serious_in_any_colours
from tests.stories.server import Server, eventually

pytestmark = pytest.mark.browser
PATH = "/v1/notifications"


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as running:
        yield running


@pytest.fixture
def addresses(server: Server) -> Iterator[None]:
    """None are set, before and after."""
    yield
    server.call("PUT", PATH, {"webhook": None, "ntfy": None})


def opened(visitor: Visitor) -> Locator:
    """The settings' section."""
    visitor.page.click("#open-settings")
    visitor.page.click("[role=tab]:has-text('Notify')")
    expect(visitor.page.get_by_label("Webhook")).to_be_visible()
    return visitor.page.locator(".settings-body [role=status]")


@pytest.mark.usefixtures("addresses")
def test_an_address_is_saved_tried_and_then_called_with_no_tab_open(
    visit: Open, server: Server, listener: Listener
) -> None:
    visitor = visit()
    page, said = visitor.page, opened(visitor)
    page.locator("text=Save and test").press("Enter")
    expect(said).to_have_text("No address is set.")
    expect(page.locator("text=Save and test")).to_be_focused()
    page.get_by_label("Webhook").fill(f"  {listener.url}/hook ")
    page.get_by_label("ntfy topic").fill(f"{listener.url}/broken")
    page.click("text=Save and test")
    expect(said).to_contain_text("it took the test in")
    expect(said).to_contain_text("it answered 500 Internal Server Error")
    assert server.get(PATH)["webhook"] == f"{listener.url}/hook"
    assert serious_in_any_colours(visitor) == []
    page.close()
    listener.calls.clear()
    session = server.session("Tea")
    server.call("POST", f"/v1/sessions/{session}/messages", {"message": "hello"}, Prefer="respond-async")
    eventually(lambda: len(listener.calls) == 2)
    told = {path: body for path, _, body in listener.calls}
    assert json.loads(told["/hook"])["text"] == "You wrote: hello"


@pytest.mark.usefixtures("addresses")
def test_addresses_are_set_and_removed_by_keyboard_and_mistakes_are_told(visit: Open, server: Server) -> None:
    visitor = visit()
    page, said = visitor.page, opened(visitor)
    page.keyboard.press("Tab")  # from the tab to its panel
    page.keyboard.press("Tab")
    expect(page.get_by_label("Webhook")).to_be_focused()
    page.keyboard.type("hooks.example/a")
    page.keyboard.press("Enter")
    expect(said.locator("[role=alert]")).to_contain_text("`webhook` must be an address such as")
    assert server.get(PATH)["webhook"] is None
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("https://hooks.example/a")
    page.keyboard.press("Enter")
    expect(said).to_have_text("saved")
    page.reload()
    said = opened(visitor)
    expect(page.get_by_label("Webhook")).to_have_value("https://hooks.example/a")
    page.get_by_label("Webhook").fill("")
    page.keyboard.press("Enter")
    expect(said).to_have_text("saved")
    assert server.get(PATH)["webhook"] is None


def test_addresses_of_the_file_are_shown_and_cannot_be_changed(visit: Open, tmp_path: Path) -> None:
    running = play(tmp_path, '[notify]\nntfy = "https://ntfy.example/mine"\n').start()
    visitor = visit(running.url, signed_in=False)
    visitor.token = running.token
    visitor.sign_in()
    opened(visitor)
    body = visitor.page.locator(".settings-body")
    expect(body).to_contain_text("timothy.toml names https://ntfy.example/mine")
    expect(visitor.page.get_by_label("ntfy topic")).to_have_value("")
    expect(body.locator("input")).to_have_count(2)
    visitor.page.close()
    running.terminate()
