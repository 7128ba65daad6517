"""What the model hears of all that was said and done."""

import pytest

from timothy.conversation import Call, Image, Message
from timothy.eventlog.context import context
from timothy.eventlog.records import Record
from timothy.tools.base import for_model


class Log:
    """Rows as a test tells them, numbered."""

    def __init__(self):
        self.records = []

    def add(self, kind, turn_id="t", **payload):
        seq = len(self.records) + 1
        self.records.append(Record("s", seq, turn_id, kind, payload, "now"))
        return seq

    def user(self, text, turn_id="t", **more):
        return self.add("user_message", turn_id, text=text, **more)

    def answer(self, text, turn_id="t", **more):
        return self.add("assistant_turn", turn_id, text=text, finish_reason="stop", **more)

    def partial(self, text, turn_id="t", code="stopped"):
        return self.add("pending_state", turn_id, text=text, code=code, final=True)

    def tool(self, call_id, turn_id="t", result="content"):
        payload = {"call_id": call_id, "name": "read_file", "input": {"path": call_id}, "status": "ok"}
        return self.add("tool_execution", turn_id, **payload, result=result)


@pytest.fixture
def log():
    log = Log()
    log.add("session_started", None)
    return log


def user(text):
    return Message("user", text)


def model(text):
    return Message("assistant", text)


def ran(*call_ids):
    calls = tuple(Call(call_id, "read_file", {"path": call_id}) for call_id in call_ids)
    results = [Message("tool", "content", call_id=call_id) for call_id in call_ids]
    return [Message("assistant", "", calls=calls), *results]


def test_a_conversation_is_told_in_order(log):
    log.user("one")
    log.answer("two")
    log.add("title_set", None, title="T")
    seq = log.user("three", "u")
    assert context(log.records, seq) == [user("one"), model("two"), user("three")]


def test_a_long_result_is_as_short_for_a_later_request_as_it_was_for_the_first(log):
    log.user("one")
    log.tool("a", result="x" * 5_000_000)
    log.partial("tw")
    seq = log.user("three", "u")
    result = next(message for message in context(log.records, seq) if message.role == "tool")
    assert result.text == for_model("x" * 5_000_000)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("stopped", "the user stopped it"),
        ("turn_timeout", "it took too long"),
        ("interrupted", "the server was interrupted"),
        ("server_shutdown", "the server was shut down"),
        ("stream_cut", "stream_cut"),
    ],
)
def test_a_later_turn_sees_every_partial_marked_with_why_it_was_cut(log, code, words):
    log.user("one")
    log.partial("tw", code=code)
    seq = log.user("three", "u")
    marked = model(f"tw\n\n[This answer was cut short: {words}]")
    assert context(log.records, seq) == [user("one"), marked, user("three")]


def test_an_answer_that_the_model_cut_is_marked_too(log):
    log.user("one")
    log.answer("tw", incomplete="length")
    seq = log.user("three", "u")
    assert context(log.records, seq)[1].text.endswith(
        "[This answer was cut short: it reached its length limit]"
    )


def test_a_failure_without_text_leaves_its_question_alone(log):
    log.user("one")
    log.add("turn_failed", code="overloaded", message="busy")
    seq = log.user("two", "u")
    assert context(log.records, seq) == [user("one"), user("two")]


def test_tools_that_ran_are_told_with_their_results_neighbours_together(log):
    log.user("one")
    log.tool("a")
    log.tool("b")
    log.answer("two")
    log.user("three", "u")
    log.tool("c", "u")
    log.partial("fo", "u")
    seq = log.user("five", "v")
    told = context(log.records, seq)
    assert told[1:4] == ran("a", "b")
    assert told[6:8] == ran("c")


def test_again_leaves_the_partials_out_but_not_the_tools(log):
    seq = log.user("one")
    log.tool("a")
    log.partial("tw")
    log.tool("b", "u")
    log.partial("TW", "u")
    assert context(log.records, seq, "again") == [user("one"), *ran("a"), *ran("b")]


def test_again_tells_of_earlier_messages_as_always(log):
    log.user("zero")
    log.partial("half")
    seq = log.user("one", "u")
    log.partial("tw", "u")
    told = context(log.records, seq, "again")
    assert [message.role for message in told] == ["user", "assistant", "user"]
    assert "cut short" in told[1].text


def test_continue_ends_with_the_partial_as_it_stands(log):
    seq = log.user("one")
    log.tool("a")
    log.partial("tw")
    assert context(log.records, seq, "continue") == [user("one"), *ran("a"), model("tw")]


def test_continue_goes_on_over_several_turns_but_a_fresh_start_is_one(log):
    seq = log.user("one")
    log.partial("first ", "t1")
    log.partial("second ", "t2")
    log.partial("third", "t3")
    assert context(log.records, seq, "continue", {"t2", "t3"})[-1] == model("first second third")
    assert context(log.records, seq, "continue", {"t3"})[-1] == model("second third")
    assert context(log.records, seq, "continue")[-1] == model("third")


def test_continue_without_any_text_is_the_message_alone(log):
    seq = log.user("one")
    log.add("turn_failed", code="overloaded", message="busy")
    assert context(log.records, seq, "continue") == [user("one")]


def test_a_picture_that_is_written_in_text_is_told_as_text(log):
    drawing = {"name": "d.svg", "media_type": "image/svg+xml", "text": "<svg/>"}
    seq = log.user("look", attachments=[drawing])
    (told,) = context(log.records, seq)
    assert (told.images, "<svg/>" in told.text) == ((), True)


def test_attachments_are_told_as_pictures_and_as_text(log):
    picture = {"name": "p.png", "media_type": "image/png", "data": "AAAA"}
    file = {"name": "notes.txt", "media_type": "text/plain", "text": "six"}
    seq = log.user("look", attachments=[picture, file])
    (told,) = context(log.records, seq)
    assert told.text == "look\n\n[notes.txt]\nsix"
    assert told.images == (Image("image/png", "AAAA"),)


def test_a_compaction_stands_for_what_it_sums_up(log):
    log.user("one")
    upto = log.answer("two")
    log.user("three", "u")
    log.answer("four", "u")
    log.add("compaction_applied", "v", summary="They counted.", upto_seq=upto)
    seq = log.user("five", "v")
    told = context(log.records, seq)
    assert told[0].role == "user" and "They counted." in told[0].text
    assert told[1:] == [user("three"), model("four"), user("five")]


def test_the_newest_compaction_counts(log):
    first = log.user("one")
    log.add("compaction_applied", summary="Old.", upto_seq=first)
    second = log.answer("two")
    log.add("compaction_applied", summary="New.", upto_seq=second)
    seq = log.user("three", "u")
    told = context(log.records, seq)
    assert [message.text.splitlines()[-1] for message in told] == ["New.", "three"]


def test_a_compaction_written_in_the_turn_itself_keeps_its_message(log):
    upto = log.user("one")
    seq = log.user("two", "u")
    log.add("compaction_applied", "u", summary="Sum.", upto_seq=upto)
    log.tool("a", "u")
    told = context(log.records, seq, "again")
    assert [message.role for message in told] == ["user", "user", "assistant", "tool"]
    assert told[1] == user("two")
