"""A conversation on the page, in a real browser, with a real server."""

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open, Visitor
from tests.stories.server import Server, eventually

pytestmark = pytest.mark.browser


def test_the_link_signs_in_and_its_token_leaves_the_address(visit: Open) -> None:
    visitor = visit()
    assert "token" not in visitor.page.url
    visitor.page.reload()
    expect(visitor.page.locator("#message")).to_be_visible()


def test_who_is_not_signed_in_is_told_how_to_get_the_link(visit: Open) -> None:
    visitor = visit(signed_in=False)
    visitor.page.goto(visitor.url)
    expect(visitor.page.locator("#signin")).to_contain_text("timothy serve")
    expect(visitor.page.locator("#message")).to_be_hidden()


def test_a_wrong_link_says_so_and_the_right_token_gets_in(visit: Open) -> None:
    visitor = visit(signed_in=False)
    visitor.page.goto(f"{visitor.url}/#token=wrong")
    expect(visitor.page.locator("#signin")).to_contain_text("not, or no longer, the right one")
    visitor.page.fill("#token", f"{visitor.url}/#token={visitor.token}")
    visitor.page.press("#token", "Enter")
    expect(visitor.page.locator("#message")).to_be_visible()


def test_a_message_gets_an_answer_and_an_address(visit: Open) -> None:
    visitor = visit()
    visitor.send("hello there")
    visitor.sees("You wrote: hello there")
    visitor.ended()
    assert visitor.session
    visitor.page.reload()
    visitor.sees("You wrote: hello there")


def test_an_answer_is_read_as_markdown(visit: Open) -> None:
    visitor = visit()
    visitor.send("markdown please")
    visitor.ended()
    answer = visitor.page.locator(".turn:last-child .answer")
    expect(answer.locator("h2")).to_have_text("Heading")
    expect(answer.locator("td").nth(1)).to_have_text("2")
    expect(answer.locator("pre .c-k").first).to_have_text("def")
    expect(answer.locator("ol li")).to_have_count(2)


def test_a_reload_in_mid_stream_shows_what_the_server_has(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("endlessly please")
    for _ in range(3):
        visitor.page.reload()
        visitor.sees("Here are words")
        shown = visitor.answer().rstrip()
        assert _read_at_least(server, session, len(shown)).startswith(shown)
    server.stop(session)
    visitor.ended()
    assert _squeezed(visitor.answer()) == _squeezed(server.read(session)["items"][-1]["text"])


def _read_at_least(server: Server, session: str, length: int) -> str:
    stream = server.live(session)
    for _ in stream:
        if len(stream.text) >= length:
            break
    stream.close()
    return stream.text


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_a_closed_tab_comes_back_to_the_running_turn(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("gate one")
    visitor.sees("before")
    visitor.page.goto("about:blank")
    visitor.open(session)
    visitor.sees("before")
    (server.home / "gate-one").touch()
    visitor.sees("before after")
    visitor.ended()


def test_a_stop_keeps_the_text_and_says_who_stopped_it(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("gate one")
    visitor.sees("before")
    visitor.page.click("#stop")
    visitor.ended()
    visitor.sees("stopped by you")
    visitor.sees("before")
    assert server.read(session)["items"][-1]["kind"] == "partial"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("half an answer", "failed: the provider is overloaded (overloaded)"),
        ("cut it", "cut: the provider closed the stream before its end"),
        ("fail it", "the provider says: no"),
        ("short please", "cut short: the answer reached the model's length limit"),
    ],
)
def test_every_bad_end_is_said_in_words(visit: Open, message: str, words: str) -> None:
    visitor = visit()
    visitor.send(message)
    visitor.sees(words)
    visitor.page.reload()
    visitor.sees(words)
    expect(visitor.page.locator(".turn:last-child button.again")).to_be_visible()


def test_again_and_continue_begin_a_turn_on_the_same_message(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("half an answer")
    for action in ("again", "continue"):
        before = visitor.page.locator(".turn").count()
        visitor.page.click(f".turn:last-child button.{action}")
        expect(visitor.page.locator(".turn")).to_have_count(before + 1)
        visitor.ended()
    kinds = [item["kind"] for item in server.read(session)["items"]]
    assert kinds.count("user") == 1
    assert kinds.count("partial") == 3


def test_a_tool_is_one_line_that_opens(visit: Open) -> None:
    visitor = visit()
    visitor.send("calculate it")
    visitor.ended()
    tool = visitor.page.locator(".turn:last-child .tool")
    expect(tool.locator("summary")).to_contain_text("calculate")
    expect(tool.locator("summary")).to_contain_text("6*7")
    tool.locator("summary").click()
    expect(tool.locator("pre").last).to_contain_text("42")


def test_thoughts_are_folded(visit: Open) -> None:
    visitor = visit()
    visitor.send("think first")
    visitor.ended()
    thoughts = visitor.page.locator(".turn:last-child .reasoning")
    expect(thoughts.locator(".reasoning-body")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.locator(".reasoning-body")).to_have_text("Let me think.")


def test_a_permission_is_answered_by_a_key(visit: Open, server: Server) -> None:
    visitor = visit()
    visitor.send("write a file")
    card = visitor.page.locator(".permission.is-open")
    expect(card).to_contain_text("a.txt")
    expect(card).to_contain_text("left")
    expect(card).to_be_focused()
    visitor.page.keyboard.press("1")
    visitor.ended()
    visitor.sees("allowed once")
    assert (server.home / "workspace" / "a.txt").read_text() == "x"


def test_a_denied_permission_says_so(visit: Open) -> None:
    visitor = visit()
    visitor.send("write a file")
    visitor.page.click(".permission.is-open [data-decision=deny]")
    visitor.ended()
    visitor.sees("denied")


def test_edit_makes_a_branch_with_another_message(visit: Open, server: Server) -> None:
    visitor = visit()
    first = visitor.send("the first words")
    visitor.ended()
    visitor.page.hover(".user")
    visitor.page.click(".user .edit")
    visitor.page.fill(".edit-form textarea", "other words")
    visitor.page.keyboard.press("Enter")
    visitor.sees("You wrote: other words")
    visitor.ended()
    assert visitor.session != first
    assert [item["text"] for item in server.read(first)["items"] if item["kind"] == "user"] == [
        "the first words"
    ]
    expect(visitor.page.locator("#linked a")).to_have_attribute("href", f"#/s/{first}")


def test_regenerate_and_branch_leave_the_first_conversation_alone(visit: Open) -> None:
    visitor = visit()
    first = visitor.send("say it twice")
    visitor.ended()
    visitor.page.click(".turn:last-child button.branch")
    expect(visitor.page).not_to_have_url(re.compile(first))
    visitor.sees("You wrote: say it twice")
    second = visitor.session
    visitor.page.click(".turn:last-child button.again")
    expect(visitor.page).not_to_have_url(re.compile(second))
    visitor.sees("You wrote: say it twice")
    visitor.open(first)
    expect(visitor.page.locator("#linked a").first).to_contain_text("branch")


def test_a_draft_survives_a_reload_and_belongs_to_its_conversation(visit: Open) -> None:
    visitor = visit()
    visitor.page.fill("#message", "a draft for a new one")
    visitor.page.reload()
    expect(visitor.page.locator("#message")).to_have_value("a draft for a new one")
    visitor.send("hello")
    expect(visitor.page.locator("#message")).to_have_value("")
    visitor.page.fill("#message", "a draft in here")
    visitor.page.click("#new")
    expect(visitor.page.locator("#message")).to_have_value("")
    visitor.page.go_back()
    expect(visitor.page.locator("#message")).to_have_value("a draft in here")


def test_a_text_file_goes_with_the_message(visit: Open, server: Server, tmp_path: Path) -> None:
    visitor = visit()
    (tmp_path / "list.txt").write_text("bread and milk")
    visitor.page.set_input_files("#picker", tmp_path / "list.txt")
    expect(visitor.page.locator("#files .chip")).to_contain_text("list.txt")
    visitor.page.reload()
    expect(visitor.page.locator("#files .chip")).to_contain_text("list.txt")
    session = visitor.send("what is on my list?")
    visitor.ended()
    expect(visitor.page.locator("#files .chip")).to_have_count(0)
    expect(visitor.page.locator(".user .chip")).to_have_text("list.txt")
    (kept,) = server.read(session)["items"][0]["attachments"]
    assert server.call("GET", f"/v1/attachments/{kept['sha256']}").text == "bread and milk"


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="


def test_a_picture_goes_with_the_message_and_with_its_branches(visit: Open, tmp_path: Path) -> None:
    visitor = visit()
    (tmp_path / "dot.png").write_bytes(base64.b64decode(PIXEL))
    visitor.page.set_input_files("#picker", tmp_path / "dot.png")
    first = visitor.send("what is this?")
    visitor.ended()
    _sees_a_picture(visitor)
    visitor.page.click(".turn:last-child button.again")
    expect(visitor.page).not_to_have_url(re.compile(first))
    visitor.sees("You wrote: what is this?")
    _sees_a_picture(visitor)


def _sees_a_picture(visitor: Visitor) -> None:
    picture = visitor.page.locator(".user .chip img")
    expect(picture).to_be_visible()
    eventually(lambda: picture.evaluate("image => image.naturalWidth") == 1)


def test_a_file_that_is_neither_text_nor_picture_is_not_taken(visit: Open, tmp_path: Path) -> None:
    visitor = visit()
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    visitor.page.set_input_files("#picker", tmp_path / "a.bin")
    expect(visitor.page.locator(".toast")).to_contain_text("neither text nor a picture")
    expect(visitor.page.locator("#files .chip")).to_have_count(0)


def test_the_list_searches_renames_archives_and_deletes_with_undo(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("a needle in here")
    visitor.ended()
    page = visitor.page
    page.fill("#search", "needle in")
    expect(page.locator("#sessions li")).to_have_count(1)
    page.click("#sessions .icon-button")
    page.click("text=Rename")
    page.fill("input.rename", "A new name")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("A new name")
    page.fill("#search", "")
    row = page.locator(f"#sessions li:has(a[href='#/s/{session}'])")
    row.locator(".icon-button").click()
    page.click(".menu >> text=Archive")
    expect(row).to_have_count(0)
    page.check("#show-archived")
    expect(row).to_have_count(1)
    row.locator("a").press("Delete")
    expect(row).to_have_count(0)
    page.click(".toast >> text=Undo")
    expect(row).to_have_count(1)
    assert server.read(session)["session"]["archived"] is True


def test_a_delete_leaves_when_the_time_to_undo_is_over(visit: Open, server: Server) -> None:
    visitor = visit()
    session = visitor.send("to be deleted")
    visitor.ended()
    visitor.page.clock.install()
    visitor.page.locator(f"#sessions a[href='#/s/{session}']").press("Delete")
    assert server.call("GET", f"/v1/sessions/{session}").status_code == 200
    visitor.page.clock.run_for(7000)
    eventually(lambda: server.call("GET", f"/v1/sessions/{session}").status_code == 404)


def test_an_export_is_a_file_of_the_conversation(visit: Open) -> None:
    visitor = visit()
    session = visitor.send("to be kept elsewhere")
    visitor.ended()
    visitor.page.locator(f"#sessions li:has(a[href='#/s/{session}']) .icon-button").click()
    with visitor.page.expect_download() as download:
        visitor.page.click(".menu >> text=Export as text")
    assert "to be kept elsewhere" in Path(download.value.path()).read_text()


def test_an_answer_that_is_over_is_whole_before_it_is_pretty(visit: Open, server: Server) -> None:
    visitor = visit()
    visitor.send("gate one")
    expect(visitor.page.locator(".turn:last-child .block.open p")).to_have_text("before")
    visitor.page.route("**/v1/render", lambda route: route.abort())
    (server.home / "gate-one").touch()
    visitor.ended()
    assert visitor.answer().strip() == "before after"
    visitor.page.unroute("**/v1/render")
    expect(visitor.page.locator(".turn:last-child .block p")).to_have_text("before after")


def test_instructions_are_kept_and_what_cannot_be_saved_is_told(visit: Open, server: Server) -> None:
    visitor = visit()
    page = visitor.page
    page.click("#open-settings")
    page.click("[role=tab]:has-text('Memory')")
    field = page.get_by_label("instructions")
    field.fill("Answer in verse.")
    field.blur()
    expect(page.locator(".settings-body [role=status]").first).to_have_text("saved")
    assert server.get("/v1/instructions")["text"] == "Answer in verse."
    field.fill("x" * 8001)
    field.blur()
    expect(page.locator(".settings-body [role=alert]")).to_contain_text("at most 8,000")
    field.fill("")
    field.blur()
    expect(page.locator(".settings-body [role=status]").first).to_have_text("saved")
    assert server.get("/v1/instructions")["text"] is None


def test_the_settings_show_what_is_true_and_change_it(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.send("hello")
    visitor.ended()
    page.click("#open-settings")
    page.click("text=Test")
    expect(page.locator(".settings-body")).to_contain_text("it answered in")
    page.click("[role=tab]:has-text('Tools')")
    box = page.locator(".cards li:has-text('run_command') input")
    box.uncheck()
    page.click("[role=tab]:has-text('Memory')")
    page.fill("[aria-label='a new note']", "likes tea")
    page.click("text=Add a note")
    expect(page.locator("[aria-label='a note']").last).to_have_value("likes tea")
    page.click("[role=tab]:has-text('Tools')")
    expect(box).not_to_be_checked()
    page.click("[role=tab]:has-text('Memory')")
    note = page.locator("[aria-label='a note']").last
    note.fill("likes coffee")
    note.blur()
    expect(page.locator(".cards")).to_contain_text("saved")
    page.click("text=forget")
    page.click("[role=tab]:has-text('About')")
    expect(page.locator(".settings-body")).to_contain_text("the log is sound")
    page.click("[role=tab]:has-text('Usage')")
    expect(page.locator("caption").first).to_have_text("By model")
    page.click("[role=tab]:has-text('Look')")
    page.check("input[value=dark]")
    page.keyboard.press("Escape")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.scheme") == "dark"
