"""The chain's rules, one a test or a row, with drivers and a clock of the test's own."""

import pytest

from tests.gateway.conftest import ANSWER, REQUEST, FakeChain, attempts, fails, shown
from timothy.events import (
    AttemptEnded,
    AttemptStarted,
    Done,
    Error,
    Failover,
    Incomplete,
    ReasoningDelta,
    Retry,
    Status,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
)

HELLO = TextDelta("Hi")


def test_an_answer_is_told_whole_with_its_attempt_around_it():
    chain = FakeChain([[*ANSWER[:1], Usage(10, 2, None), ANSWER[-1]]])
    assert chain.ask() == [
        AttemptStarted("a", "model-a", "T1000"),
        Status("waiting_for_provider", "waiting for a"),
        HELLO,
        Usage(10, 2, None),
        AttemptEnded("a", "model-a", "ok", None, 10, 2, None, None, 0, 0, "T1000"),
        Done("stop"),
    ]


@pytest.mark.parametrize(
    "code",
    [
        "provider_unreachable",
        "provider_timeout",
        "provider_stalled",
        "stream_cut",
        "malformed_stream",
        "auth_failed",
        "model_not_found",
        "rate_limited",
        "overloaded",
        "provider_error",
        "empty_output",
    ],
)
def test_a_failure_before_anything_was_shown_goes_on_to_the_next_entry(code):
    chain = FakeChain([fails(code)], [ANSWER])
    events = chain.ask()
    assert shown(events) == [Failover("a", "b", code), *ANSWER]
    assert chain.asked() == {"a": 1, "b": 1}
    assert [row[0] for row in attempts(events)] == ["a", "b"]


@pytest.mark.parametrize("code", ["bad_request", "context_overflow"])
def test_a_request_that_is_wrong_in_itself_reaches_the_user_and_nobody_else(code):
    refusal = Error(code, "the provider's words", False, prompt_tokens=921, context_window=512)
    chain = FakeChain([[refusal]], [ANSWER])
    events = chain.ask()
    assert shown(events) == [refusal]
    assert attempts(events) == [("a", "error", code)]
    assert chain.gateway.providers()[0].healthy


@pytest.mark.parametrize(
    "content",
    [HELLO, ReasoningDelta("Hm"), ToolCallStarted("1", "calculate"), ToolCall("1", "calculate", {})],
    ids=["text", "reasoning", "a call's start", "a call"],
)
def test_after_content_the_real_failure_is_told_and_nothing_starts_over(content):
    chain = FakeChain([[content, *fails("overloaded")]], [ANSWER])
    events = chain.ask()
    assert shown(events) == [content, Error("overloaded", "words", True)]
    assert attempts(events) == [("a", "error", "overloaded")]
    assert chain.asked() == {"a": 1, "b": 0}


def test_a_stream_that_stops_after_content_is_a_cut():
    events = FakeChain([[HELLO]], [ANSWER]).ask()
    assert shown(events) == [HELLO, Error("stream_cut", "the stream ended without saying so", True)]
    assert attempts(events) == [("a", "error", "stream_cut")]


def test_a_driver_that_raises_is_a_named_failure():
    events = FakeChain([[ValueError("oh no")]], [ANSWER]).ask()
    assert shown(events) == [Failover("a", "b", "stream_cut"), *ANSWER]


def test_a_driver_that_cannot_even_start_a_stream_is_a_named_failure():
    chain = FakeChain([ANSWER])
    chain.drivers["a"].stream = lambda request, cancel: 1 / 0
    events = chain.ask()
    assert attempts(events) == [("a", "error", "stream_cut")]
    assert "ZeroDivisionError" in events[-1].message


def test_status_and_usage_are_not_content():
    chain = FakeChain(
        [[Status("loading_model", "loading"), Usage(1, 0, None), *fails("overloaded")]], [ANSWER]
    )
    assert Failover("a", "b", "overloaded") in chain.ask()


@pytest.mark.parametrize("code", ["provider_unreachable", "rate_limited", "provider_error", "overloaded"])
def test_the_last_entry_is_tried_up_to_two_more_times(code):
    chain = FakeChain([fails(code)])
    events = chain.ask()
    assert shown(events) == [Retry(2, 500, code), Retry(3, 1000, code), Error(code, "words", True)]
    assert attempts(events) == [("a", "error", code)] * 3
    assert chain.time.waits == [0.5, 1.0]


@pytest.mark.parametrize(
    "code",
    [
        "provider_stalled",
        "provider_timeout",
        "auth_failed",
        "model_not_found",
        "stream_cut",
        "malformed_stream",
    ],
)
def test_a_failure_that_a_second_try_would_not_mend_is_not_retried(code):
    chain = FakeChain([fails(code)])
    assert shown(chain.ask()) == [Error(code, "words", True)]
    assert chain.asked() == {"a": 1}


def test_a_refusal_that_no_second_try_would_change_is_not_retried():
    chain = FakeChain([[Error("provider_error", "payment required", False)]])
    assert shown(chain.ask()) == [Error("provider_error", "payment required", False)]
    assert chain.asked() == {"a": 1}


def test_a_retry_that_works_ends_the_retries():
    chain = FakeChain([fails("overloaded"), ANSWER])
    assert shown(chain.ask()) == [Retry(2, 500, "overloaded"), *ANSWER]


def test_earlier_entries_get_one_try_and_the_last_gets_three():
    chain = FakeChain([fails("overloaded")], [fails("provider_error")])
    chain.ask()
    assert chain.asked() == {"a": 1, "b": 3}


@pytest.mark.parametrize(("told", "waited"), [(0.1, 0.5), (7.0, 7.0), (3600.0, 60.0)])
def test_retry_after_is_a_floor_for_the_wait_and_capped(told, waited):
    chain = FakeChain([fails("rate_limited", retry_after_s=told), ANSWER])
    assert Retry(2, round(waited * 1000), "rate_limited") in chain.ask()
    assert chain.time.waits == [waited]


def test_all_of_several_entries_failed_lists_each_with_its_code_and_words():
    chain = FakeChain([fails("auth_failed", "bad key")], [fails("overloaded", "no room")])
    events = chain.ask()
    error = events[-1]
    assert error.code == "chain_exhausted"
    assert "a: auth_failed: bad key" in error.message
    assert "b: overloaded: no room" in error.message
    assert attempts(events) == [("a", "error", "auth_failed"), *[("b", "error", "overloaded")] * 3]


def test_a_bad_request_at_the_second_entry_keeps_its_own_code():
    events = FakeChain([fails("overloaded")], [fails("bad_request", "no such role")]).ask()
    assert events[-1] == Error("bad_request", "no such role", True)


@pytest.mark.parametrize("entries", [1, 2])
def test_nothing_but_empty_answers_is_an_empty_response(entries):
    events = FakeChain(*[[[Done("stop")]]] * entries).ask()
    assert events[-1].code == "empty_response"
    assert {row[1:] for row in attempts(events)} == {("incomplete", "empty_output")}
    assert len(attempts(events)) == entries


def test_a_driver_may_name_the_empty_answer_itself():
    events = FakeChain([fails("empty_output")]).ask()
    assert events[-1].code == "empty_response"
    assert attempts(events) == [("a", "incomplete", "empty_output")]


def test_empty_and_failed_together_are_an_exhausted_chain():
    assert FakeChain([[Done("stop")]], [fails("auth_failed")]).ask()[-1].code == "chain_exhausted"


def test_an_answer_cut_short_is_incomplete_in_the_stream_and_in_the_ledger():
    events = FakeChain([[HELLO, Incomplete("length"), Done("length")]]).ask()
    assert shown(events) == [HELLO, Incomplete("length"), Done("length")]
    assert attempts(events) == [("a", "incomplete", "length")]


def test_an_empty_attempt_does_not_make_the_next_ones_answer_incomplete():
    events = FakeChain([[Incomplete("content_filter"), Done("content_filter")]], [ANSWER]).ask()
    assert shown(events) == [Failover("a", "b", "empty_output"), *ANSWER]


def test_a_stop_in_an_attempt_is_no_failure_and_ends_the_chain():
    chain = FakeChain([[]], [ANSWER])
    chain.drivers["a"].plays = [[lambda: chain.cancel.cancel(), *fails("provider_unreachable")]]
    events = chain.ask()
    assert events[-1].code == "stopped"
    assert attempts(events) == [("a", "stopped", "stopped")]
    assert chain.asked() == {"a": 1, "b": 0}
    assert chain.gateway.providers()[0].healthy


def test_a_stop_after_content_keeps_what_came_and_ends_as_stopped():
    chain = FakeChain([[]])
    chain.drivers["a"].plays = [[HELLO, lambda: chain.cancel.cancel(), *fails("stream_cut")]]
    events = chain.ask()
    assert [event for event in shown(events) if isinstance(event, TextDelta)] == [HELLO]
    assert (events[-1].code, attempts(events)) == ("stopped", [("a", "stopped", "stopped")])


def test_a_stop_that_a_driver_takes_for_an_end_is_still_a_stop():
    chain = FakeChain([[]])
    chain.drivers["a"].plays = [[lambda: chain.cancel.cancel(), Done("stop")]]
    events = chain.ask()
    assert (events[-1].code, attempts(events)) == ("stopped", [("a", "stopped", "stopped")])


def test_a_stop_while_waiting_for_a_retry_dials_no_more():
    chain = FakeChain([fails("overloaded")])
    stream = chain.gateway.stream(REQUEST, chain.cancel)
    events = []
    for event in stream:
        events.append(event)
        if isinstance(event, Retry):
            chain.cancel.cancel()
    assert (events[-1].code, chain.asked()) == ("stopped", {"a": 1})


def test_a_stop_before_the_start_dials_nobody():
    chain = FakeChain([ANSWER])
    chain.cancel.cancel()
    assert [event.code for event in chain.ask()] == ["stopped"]
    assert chain.asked() == {"a": 0}


def test_a_reader_that_goes_away_closes_the_drivers_stream():
    chain = FakeChain([[HELLO, HELLO, Done("stop")]])
    stream = chain.gateway.stream(REQUEST, chain.cancel)
    while next(stream) != HELLO:
        pass
    stream.close()
    assert chain.drivers["a"].closed == 1


def test_nothing_follows_the_terminal():
    events = FakeChain([[HELLO, Done("stop"), HELLO, Error("late", "late", True)]]).ask()
    assert shown(events) == [HELLO, Done("stop")]


def test_times_are_monotonic_milliseconds_from_the_dial():
    chain = FakeChain([[]])
    tick = chain.time.pass_by
    chain.drivers["a"].plays = [[lambda: tick(0.25), HELLO, lambda: tick(1), Done("stop")]]
    row = next(event for event in chain.ask() if isinstance(event, AttemptEnded))
    assert (row.first_token_ms, row.duration_ms) == (250, 1250)
