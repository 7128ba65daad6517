"""After a bad end the message is answered again, or its answer goes on; the model knows what happened."""

import json
from typing import Any

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server

CUT = Behaviour(tokens=3, end="cut")
CLOCK = {"name": "calculate", "arguments": {"expression": "6*7"}}


def sent(provider: FakeProvider, number: int) -> list[dict[str, Any]]:
    """The messages of the `number`-th request, without the system's words."""
    messages = provider.requests("fake")[number].body["messages"]
    return [message for message in messages if message["role"] != "system"]


def short(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in messages]


def test_again_answers_the_same_message_without_the_partial(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", CUT, Behaviour(text="the whole answer"))
    session = server.session()
    assert server.send(session, "question").rest().end == "stream_cut"
    again = server.retry(session).rest()
    assert (again.end, again.text, again.events[0]["message"]) == ("done", "the whole answer", "question")
    assert short(sent(provider, 1)) == [("user", "question")]
    kinds = [row["kind"] for row in server.events(session) if row["kind"] != "title_set"]
    assert kinds == ["session_started", "user_message", "pending_state", "assistant_turn"]


def test_continue_goes_on_from_the_partial(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", CUT, Behaviour(text="and the rest"))
    session = server.session()
    server.send(session, "question").rest()
    rest = server.retry(session, "continue").rest()
    assert (rest.end, rest.text) == ("done", "and the rest")
    messages = sent(provider, 1)
    assert short(messages)[0] == ("user", "question")
    assert "t0 t1 t2" in json.dumps(messages[1:])


def test_a_tool_that_ran_is_told_and_not_run_again(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tools=(CLOCK,), text="cut {tool}", end="done"), CUT, Behaviour())
    session = server.session()
    assert server.send(session, "what is it").rest().end == "stream_cut"
    for number, mode in ((2, "again"), (3, "continue")):
        if mode == "continue":
            provider.behave("fake", Behaviour())
            provider.log.clear()
            assert server.retry(session).status == 409  # it came to a whole answer
            continue
        assert server.retry(session, mode).rest().end == "done"
        messages = sent(provider, number)
        assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
        assert messages[1]["tool_calls"][0]["function"]["name"] == "calculate"
        assert messages[2]["content"].strip().startswith("42")
    rows = [row for row in server.events(session) if row["kind"] == "tool_execution"]
    assert len(rows) == 1


def test_a_later_message_knows_every_earlier_partial_and_why_it_was_cut(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave(
        "fake", CUT, Behaviour(tokens=2, hold="end"), Behaviour(finish_reason="length"), Behaviour()
    )
    session = server.session()
    server.send(session, "one").rest()
    tab = server.send(session, "two")
    while tab.text != "t0 t1 ":
        tab.until("text_delta")
    server.stop(session)
    server.send(session, "three").rest()
    server.send(session, "four").rest()
    words = [content for role, content in short(sent(provider, 3)) if role == "assistant"]
    assert len(words) == 3
    assert words[0].startswith("t0 t1 t2 ") and "cut short" in words[0]
    assert words[1].startswith("t0 t1 ") and "the user stopped it" in words[1]
    assert words[2].startswith("t0 t1 t2 t3 t4 ") and "length" in words[2]


def test_a_turn_that_a_kill_interrupted_can_be_answered(servers: Start, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(hold=0), Behaviour(tokens=0, end="cut"), Behaviour(text="at last"))
    server = servers(TIMERS + entry(provider))
    session = server.session()
    server.send(session, "question")
    provider.wait_request("fake")
    server.kill()
    server.start()
    assert server.retry(session, "again").rest().end == "stream_cut"
    later = server.retry(session, "continue").rest()
    assert (later.end, later.text) == ("done", "at last")
    assert short(sent(provider, 1)) == short(sent(provider, 2)) == [("user", "question")]


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(status=400),
        Behaviour(tokens=0),
        Behaviour(finish_reason="length"),
        Behaviour(tokens=2, end="error", error_code=400),
    ],
    ids=["refused", "empty", "length", "failed after text"],
)
def test_every_end_but_a_whole_answer_can_be_retried(
    server: Server, provider: FakeProvider, behaviour: Behaviour
) -> None:
    provider.behave("fake", behaviour, Behaviour())
    session = server.session()
    server.send(session).rest()
    assert server.retry(session).rest().end == "done"
    refused = server.retry(session)
    assert (refused.status, refused.json()["error"]) == (409, "no_retryable_turn")


def test_there_is_nothing_to_retry_in_a_new_session(server: Server) -> None:
    answer = server.retry(server.session())
    assert (answer.status, answer.json()["error"]) == (409, "no_retryable_turn")


@pytest.mark.parametrize("mode", ["AGAIN", "restart", 1, True, {}])
def test_an_unknown_mode_is_named(server: Server, mode: object) -> None:
    answer = server.call("POST", f"/v1/sessions/{server.session()}/messages/retry", {"mode": mode})
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
