"""The gateway with a real provider on a real socket, in process and behind HTTP: the same promises."""

import statistics
import time

import pytest

from tests.gateway.conftest import REQUEST, Reading, attempts, entries, is_text, shown
from timothy.cancel import Cancel
from timothy.conversation import Call, Message, ModelRequest
from timothy.events import AttemptEnded, Done, Error, Failover, Retry, Status, TextDelta, ToolCall
from timothy.gateway import chain


def is_waiting(event):
    return isinstance(event, Status)


def text(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_an_answer_comes_whole_with_its_tokens_and_times(provider, opened):
    gateway = opened(entries(provider, "normal?tokens=3", price_in=1.0, price_out=2.0))
    events = Reading(gateway).end()
    assert (text(events).strip(), events[-1]) == ("t0 t1 t2", Done("stop"))
    row = events[-2]
    assert isinstance(row, AttemptEnded)
    assert (row.provider, row.status, row.input_tokens, row.output_tokens) == ("a", "ok", 10, 3)
    assert row.cost == pytest.approx((10 * 1.0 + 3 * 2.0) / 1e6)
    assert row.first_token_ms <= row.duration_ms


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("unauthorized", "auth_failed"),
        ("rate-limited", "rate_limited"),
        ("broken", "provider_error"),
        ("overloaded", "overloaded"),
        ("empty", "empty_output"),
        ("cut?tokens=0", "stream_cut"),
        ("reset?tokens=0", "stream_cut"),
        ("garbage?tokens=0", "malformed_stream"),
        ("error?tokens=0", "provider_error"),
    ],
)
def test_the_next_entry_answers_when_the_first_shows_nothing(provider, opened, model, code):
    events = Reading(opened(entries(provider, model, "normal"))).end()
    assert [event for event in events if isinstance(event, Failover)] == [Failover("a", "b", code)]
    assert [row[0] for row in attempts(events)] == ["a", "b"]
    assert (text(events).split(), events[-1]) == (["t0", "t1", "t2", "t3", "t4"], Done("stop"))


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("cut?tokens=2", "stream_cut"),
        ("reset?tokens=2", "stream_cut"),
        ("garbage?tokens=2", "malformed_stream"),
        ("error?tokens=2", "provider_error"),
    ],
)
def test_after_text_the_real_failure_is_told(provider, opened, model, code):
    events = Reading(opened(entries(provider, model, "normal"))).end()
    assert (text(events).split(), events[-1].code) == (["t0", "t1"], code)
    assert attempts(events) == [("a", "error", code)]
    assert provider.requests("normal") == []


def test_a_refusal_reaches_the_user_in_the_providers_words(provider, opened):
    events = Reading(opened(entries(provider, "bad-request", "normal"))).end()
    [error] = shown(events)
    assert error.code == "bad_request"
    assert "the fake cannot read that" in error.message


def test_a_provider_that_stays_silent_is_given_up_by_name(provider, opened):
    gateway = opened(entries(provider, "hang", first_content_timeout_s=0.2))
    [error] = shown(Reading(gateway).end())
    assert error.code == "provider_stalled"


def test_an_unreachable_provider_is_tried_again_and_then_named(provider, opened, monkeypatch):
    monkeypatch.setattr(chain, "RETRY_DELAYS_S", (0.05, 0.1))
    unreachable = entries(provider, "normal")
    provider.stop()
    events = Reading(opened(unreachable)).end()
    assert [event for event in events if isinstance(event, Retry)] == [
        Retry(2, 50, "provider_unreachable"),
        Retry(3, 100, "provider_unreachable"),
    ]
    assert events[-1].code == "provider_unreachable"


def test_retry_after_as_a_header_is_waited_for(provider, opened):
    provider.behave("m", "rate-limited", "normal", retry_after="0.6")
    began = time.monotonic()
    events = Reading(opened(entries(provider, "m"))).end()
    assert Retry(2, 600, "rate_limited") in events
    assert (events[-1], time.monotonic() - began > 0.59) == (Done("stop"), True)


@pytest.mark.parametrize("hold", ["headers", 0, 2, "end"])
def test_a_stop_closes_the_providers_socket_at_once(provider, opened, hold):
    provider.behave("m", tokens=2, hold=hold)
    gateway = opened(entries(provider, "m", "normal"))
    times = []
    for number in range(1, 4):
        reading = Reading(gateway)
        entry = provider.wait_request("m", number)
        reading.until(is_text if hold in (2, "end") else is_waiting)
        stopped = time.monotonic()
        reading.cancel.cancel()
        events = reading.end()
        assert (events[-1].code, attempts(events)) == ("stopped", [("a", "stopped", "stopped")])
        assert entry.done.wait(5)
        assert entry.ended == "client_closed"
        times.append(entry.ended_at - stopped)
    assert statistics.median(times) < 0.25
    assert provider.requests("normal") == []


def test_a_stop_while_waiting_to_try_again_ends_at_once(provider, opened):
    provider.behave("m", "rate-limited", retry_after="30")
    reading = Reading(opened(entries(provider, "m")))
    reading.until(lambda event: isinstance(event, Retry))
    stopped = time.monotonic()
    reading.cancel.cancel()
    assert reading.end()[-1].code == "stopped"
    assert time.monotonic() - stopped < 0.25
    assert len(provider.requests("m")) == 1


def test_a_reader_that_goes_away_closes_the_providers_socket(provider, opened):
    provider.behave("m", tokens=2, hold=1)
    stream = opened(entries(provider, "m")).stream(REQUEST, Cancel())
    while not is_text(next(stream)):
        pass
    stream.close()
    assert provider.wait_ended("m").ended == "client_closed"


def test_tool_calls_pass_and_their_result_goes_back(provider, opened):
    gateway = opened(entries(provider, "tool"))
    events = shown(Reading(gateway).end())
    call = next(event for event in events if isinstance(event, ToolCall))
    assert (call.name, call.input) == ("current_time", {})
    made = Message("assistant", "", calls=(Call(call.call_id, call.name, call.input),))
    answer = Message("tool", "noon", call_id=call.call_id)
    events = Reading(gateway, ModelRequest((Message("user", "Hi"), made, answer))).end()
    assert text(events) == "the tool said noon"


def test_a_model_is_known_by_its_id_and_by_its_entrys_name(provider, opened):
    gateway = opened(entries(provider, "normal", "normal"))
    assert [row.id for row in gateway.models()] == ["normal", "b/normal"]
    request = ModelRequest((Message("user", "Hi"),), model="b/normal")
    assert attempts(Reading(gateway, request).end()) == [("b", "ok", None)]
    unknown = Reading(gateway, ModelRequest((Message("user", "Hi"),), model="none")).end()
    assert [event.code for event in unknown if isinstance(event, Error)] == ["unknown_model"]


def test_the_providers_health_is_told(provider, opened):
    gateway = opened(entries(provider, "overloaded?retry_after=600", "normal"))
    Reading(gateway).end()
    first, second = gateway.providers()
    assert (first.healthy, first.cooling_until is not None) == (False, True)
    assert first.last_error.startswith("overloaded: the fake has no capacity")
    assert second.healthy
