"""How a turn ends: each row of the table of endings, over real HTTP, on the stream and in the log."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server
from tests.stories.wire import Stream


@dataclass(frozen=True)
class Row:
    """One ending: what the provider does, and what must stand on the stream and in the log."""

    behaviour: Behaviour
    end: str
    kind: str
    outcome: str
    text: str = ""
    incomplete: str | None = None
    attempts: tuple[tuple[str, str | None], ...] = field(default=(("ok", None),))
    retryable: bool | None = None


def cut(**behaviour: Any) -> Behaviour:
    return Behaviour(tokens=2, **behaviour)


ROWS = {
    "answer": Row(cut(), "done", "assistant_turn", "completed", "t0 t1 "),
    "reasoning alone is an answer": Row(
        Behaviour(tokens=0, reasoning=2), "done", "assistant_turn", "completed"
    ),
    "answer cut short by its length": Row(
        cut(finish_reason="length"),
        "done",
        "assistant_turn",
        "incomplete",
        "t0 t1 ",
        "length",
        (("incomplete", "length"),),
    ),
    "answer cut short by a filter": Row(
        cut(finish_reason="content_filter"),
        "done",
        "assistant_turn",
        "incomplete",
        "t0 t1 ",
        "content_filter",
        (("incomplete", "content_filter"),),
    ),
    "nothing at all": Row(
        Behaviour(tokens=0),
        "empty_response",
        "turn_failed",
        "failed",
        attempts=(("incomplete", "empty_output"),),
        retryable=True,
    ),
    "a length cut with nothing": Row(
        Behaviour(tokens=0, finish_reason="length"),
        "empty_response",
        "turn_failed",
        "failed",
        attempts=(("incomplete", "empty_output"),),
    ),
    "an error object after text": Row(
        cut(end="error", error_code=529, message="no room"),
        "overloaded",
        "pending_state",
        "failed",
        "t0 t1 ",
        attempts=(("error", "overloaded"),),
        retryable=True,
    ),
    "a reset after text": Row(
        cut(end="reset"),
        "stream_cut",
        "pending_state",
        "failed",
        "t0 t1 ",
        attempts=(("error", "stream_cut"),),
        retryable=True,
    ),
    "garbage after text": Row(
        cut(end="garbage"),
        "malformed_stream",
        "pending_state",
        "failed",
        "t0 t1 ",
        attempts=(("error", "malformed_stream"),),
    ),
    "an end without saying so": Row(
        cut(end="cut"), "stream_cut", "pending_state", "failed", "t0 t1 ", attempts=(("error", "stream_cut"),)
    ),
    "an end without saying so nor text": Row(
        Behaviour(tokens=0, end="cut"),
        "stream_cut",
        "turn_failed",
        "failed",
        attempts=(("error", "stream_cut"),),
    ),
    "an end after reasoning alone": Row(
        Behaviour(tokens=0, reasoning=2, end="cut"),
        "stream_cut",
        "turn_failed",
        "failed",
        attempts=(("error", "stream_cut"),),
    ),
    "a request that is wrong": Row(
        Behaviour(status=400, message="no such parameter"),
        "bad_request",
        "turn_failed",
        "failed",
        attempts=(("error", "bad_request"),),
        retryable=False,
    ),
    "a key that is wrong": Row(
        Behaviour(status=401),
        "auth_failed",
        "turn_failed",
        "failed",
        attempts=(("error", "auth_failed"),),
        retryable=False,
    ),
    "a model that is not there": Row(
        Behaviour(status=404),
        "model_not_found",
        "turn_failed",
        "failed",
        attempts=(("error", "model_not_found"),),
    ),
    "a provider that breaks thrice": Row(
        Behaviour(status=500, message="it broke"),
        "provider_error",
        "turn_failed",
        "failed",
        attempts=(("error", "provider_error"),) * 3,
        retryable=True,
    ),
}


def check(server: Server, session: str, tab: Stream, row: Row) -> dict[str, Any]:
    """The stream, the log, the transcript and the ledger agree on this end; returns the evidence."""
    assert (tab.end, tab.meta["outcome"], tab.text) == (row.end, row.outcome, row.text)
    evidence = server.evidence(session, tab.turn_id)
    payload = evidence["payload"]
    assert (evidence["kind"], payload.get("text", "")) == (row.kind, row.text)
    assert payload.get("incomplete") == row.incomplete
    if row.kind == "assistant_turn":
        assert payload["finish_reason"] == tab.terminal["finish_reason"]
    else:
        assert payload["code"] == row.end and payload["message"] == tab.terminal["message"]
    if row.incomplete:
        assert tab.kinds[-3:] == ["incomplete", "done", "meta"]
    if row.retryable is not None:
        assert tab.terminal["retryable"] is row.retryable
    turn = server.turn(session, tab.turn_id)
    assert turn["outcome"] == row.outcome
    assert turn["code"] == (None if row.end == "done" else row.end)
    assert [(attempt["status"], attempt["code"]) for attempt in turn["attempts"]] == list(row.attempts)
    shown = server.read(session)
    assert shown["turn_active"] is False
    item = {"assistant_turn": "assistant", "pending_state": "partial", "turn_failed": "failure"}[row.kind]
    assert (shown["items"][-1]["kind"], shown["items"][-1]["turn_id"]) == (item, tab.turn_id)
    return evidence


@pytest.mark.parametrize("name", ROWS)
def test_a_turn_ends_as_the_table_says(server: Server, provider: FakeProvider, name: str) -> None:
    row = ROWS[name]
    provider.behave("fake", row.behaviour)
    session = server.session()
    tab = server.send(session).rest()
    evidence = check(server, session, tab, row)
    if row.behaviour.status != 200 or row.behaviour.end == "error":
        assert row.behaviour.message in evidence["payload"]["message"], "the provider's own words"
    if row.behaviour.reasoning:
        assert evidence["payload"]["reasoning"] == "r0 r1 "


def test_a_stopped_turn_ends_as_the_table_says(server: Server, provider: FakeProvider) -> None:
    stopped = (("stopped", "stopped"),)
    for tokens, kind in ((2, "pending_state"), (0, "turn_failed")):
        provider.behave("fake", tokens=tokens, end="hang")
        session = server.session()
        tab = server.send(session)
        provider.wait_request("fake", 1 if tokens else 2)
        while len(tab.text.split()) < tokens:
            tab.until("text_delta")
        assert server.stop(session).json()["outcome"] == "stopped"
        text = "t0 t1 "[: 3 * tokens]
        check(server, session, tab.rest(), Row(Behaviour(), "stopped", kind, "stopped", text, None, stopped))


@pytest.mark.parametrize(("tokens", "kind"), [(2, "pending_state"), (0, "turn_failed")])
def test_a_turn_at_its_ceiling_ends_as_the_table_says(
    hasty: Server, provider: FakeProvider, tokens: int, kind: str
) -> None:
    provider.behave("fake", tokens=tokens, end="hang")
    session = hasty.session()
    tab = hasty.send(session).rest()
    text = "t0 t1 "[: 3 * tokens]
    attempts = (("stopped", "turn_timeout"),)
    check(hasty, session, tab, Row(Behaviour(), "turn_timeout", kind, "failed", text, None, attempts))
    assert provider.wait_ended("fake").ended == "client_closed"


@pytest.fixture(scope="module")
def two_entries(shared_servers: Start, provider: FakeProvider) -> Server:
    return shared_servers(TIMERS + entry(provider, "first") + entry(provider, "second"))


@pytest.fixture
def chained(two_entries: Server, provider: FakeProvider) -> Server:
    """Two entries: `first`, which just did well and so is not cooling, and `second` when it must."""
    assert two_entries.send(two_entries.session(), model="first").rest().end == "done"
    provider.clear()
    return two_entries


def test_a_chain_of_failures_names_each(chained: Server, provider: FakeProvider) -> None:
    provider.behave("first", "unauthorized")
    provider.behave("second", status=404, message="never heard of that model")
    session = chained.session()
    tab = chained.send(session).rest()
    attempts = (("error", "auth_failed"), ("error", "model_not_found"))
    row = Row(Behaviour(), "chain_exhausted", "turn_failed", "failed", attempts=attempts)
    message = check(chained, session, tab, row)["payload"]["message"]
    for words in ("first", "auth_failed", "does not know that key", "second", "never heard of that model"):
        assert words in message
    failover = next(event for event in tab.events if event["type"] == "failover")
    assert (failover["from"], failover["to"], failover["code"]) == ("first", "second", "auth_failed")
    assert "failover" in [item["kind"] for item in chained.read(session)["items"]]


def test_a_chain_of_empty_answers_is_one_empty_response(chained: Server, provider: FakeProvider) -> None:
    provider.behave("first", "empty")
    provider.behave("second", "empty")
    session = chained.session()
    attempts = (("incomplete", "empty_output"),) * 2
    row = Row(Behaviour(), "empty_response", "turn_failed", "failed", attempts=attempts)
    check(chained, session, chained.send(session).rest(), row)


def test_a_stream_cut_before_content_goes_on_with_the_chain(chained: Server, provider: FakeProvider) -> None:
    provider.behave("first", tokens=0, end="cut")
    session = chained.session()
    attempts = (("error", "stream_cut"), ("ok", None))
    row = Row(Behaviour(), "done", "assistant_turn", "completed", "t0 t1 t2 t3 t4 ", attempts=attempts)
    check(chained, session, chained.send(session).rest(), row)
    assert chained.read(session)["items"][-1]["provider"] == "second"


def test_a_failure_after_text_is_never_silently_restarted(chained: Server, provider: FakeProvider) -> None:
    provider.behave("first", tokens=2, end="cut")
    session = chained.session()
    attempts = (("error", "stream_cut"),)
    row = Row(Behaviour(), "stream_cut", "pending_state", "failed", "t0 t1 ", attempts=attempts)
    check(chained, session, chained.send(session).rest(), row)
    assert provider.requests("second") == []


def test_a_worker_that_breaks_inside_the_server_ends_as_a_failure(scripted: Server) -> None:
    """The driver itself raises: whatever it is, the turn ends by name."""
    session = scripted.session()
    tab = scripted.send(session, "break inside").rest()
    evidence = scripted.evidence(session, tab.turn_id)
    assert (evidence["kind"], evidence["payload"]["text"]) == ("pending_state", "so far ")
    assert evidence["payload"]["code"] == tab.end == scripted.turn(session, tab.turn_id)["code"]
    assert tab.meta["outcome"] == "failed"
    assert scripted.send(session, "quick").rest().end == "done"


def test_a_failure_in_a_later_step_keeps_the_text_of_the_earlier_one(scripted: Server) -> None:
    session = scripted.session()
    tab = scripted.send(session, "fail later").rest()
    evidence = scripted.evidence(session, tab.turn_id)
    assert (evidence["kind"], evidence["payload"]["text"]) == ("pending_state", "let me see")
    assert evidence["payload"]["code"] == tab.end == "overloaded"
    assert tab.text == "let me see"
