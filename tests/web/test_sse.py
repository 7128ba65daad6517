"""Streams over HTTP: cursors read, ended turns told again."""

import pytest
from flask import Flask

from timothy.errors import BadRequest
from timothy.eventlog.records import Record
from timothy.events import (
    Done,
    Error,
    Incomplete,
    Meta,
    ReasoningDelta,
    TextDelta,
    Tokens,
    TurnStarted,
    frame,
)
from timothy.turn.replay import Replay
from web import sse

TURN = {
    "started_at": "t0",
    "outcome": "completed",
    "provider": "p",
    "model": "m",
    "usage": {"input_tokens": 1, "output_tokens": 2, "cached_tokens": None},
    "cost": 0.5,
}


@pytest.fixture
def replay():
    replay = Replay("s", "a1b2-turn")
    for _ in range(5):
        replay.append(TextDelta("x"))
    return replay


def cursor(replay, after=None, header=None):
    query = {} if after is None else {"after": after}
    headers = {} if header is None else {"Last-Event-ID": header}
    with Flask("test").test_request_context("/", query_string=query, headers=headers):
        return sse.cursor(replay)


@pytest.mark.parametrize(
    ("after", "header", "expected"),
    [
        (None, None, 0),
        ("3", None, 3),
        ("a1b2-turn:3", None, 3),
        ("A1B2-TURN:3", None, 3),
        ("0", None, 0),
        ("5", None, 5),
        ("6", None, 0),
        ("other:3", None, 0),
        ("9" * 400, None, 0),
        (None, "a1b2-turn:4", 4),
        (None, "other:4", 0),
        (None, "", 0),
        ("2", "a1b2-turn:4", 2),
        ("other:2", "a1b2-turn:4", 0),
    ],
)
def test_a_cursor_goes_on_in_its_own_turn_and_else_from_the_start(replay, after, header, expected):
    assert cursor(replay, after, header) == expected


@pytest.mark.parametrize(
    "text", ["x", "-1", "1.5", ":", "a1b2-turn:", ":3", "a b:3", "٣", " 3", "a1b2-turn:3:4"]
)
def test_a_cursor_that_cannot_be_read_is_refused(replay, text):
    with pytest.raises(BadRequest, match="TURN_ID:SEQ"):
        cursor(replay, text)


def ended(kind, payload, **turn):
    record = Record("s", 9, "t", kind, payload, "now")
    return list(sse.ended_events("s", {**TURN, **turn}, "Hello", record, "Title"))


def test_an_answer_is_told_again_as_a_late_viewer_sees_it():
    payload = {"text": "Hi", "reasoning": "hm", "finish_reason": "stop", "duration_ms": 7}
    meta = Meta("s", "completed", "p", "m", Tokens(1, 2, None), 0.5, 7, "Title")
    assert ended("assistant_turn", payload) == [
        TurnStarted("s", "t0", "Hello"),
        ReasoningDelta("hm"),
        TextDelta("Hi"),
        Done("stop"),
        meta,
    ]


def test_a_cut_answer_keeps_its_mark():
    payload = {"text": "Hi", "incomplete": "length", "finish_reason": "length"}
    assert ended("assistant_turn", payload, outcome="incomplete")[2:4] == [
        Incomplete("length"),
        Done("length"),
    ]


def test_a_partial_and_a_failure_end_with_their_error():
    partial = {"text": "Ha", "code": "stopped", "message": "by the user", "final": True}
    events = ended("pending_state", partial, usage=None, outcome="stopped")
    assert events[1:3] == [TextDelta("Ha"), Error("stopped", "by the user", True)]
    assert events[-1].usage is None
    failure = {"code": "bad_request", "message": "why", "retryable": False}
    assert ended("turn_failed", failure, outcome="failed")[1:-1] == [Error("bad_request", "why", False)]


def test_a_stream_told_again_counts_from_one_and_says_that_it_is_a_repeat():
    response = sse.retell("s", "t", [TextDelta("a"), Done("stop")])
    data = response.get_data()
    assert data.startswith(b": ")
    assert data.endswith(frame(TextDelta("a"), "t", 1) + frame(Done("stop"), "t", 2))
    assert response.headers["Idempotent-Replayed"] == "true"
    assert (response.headers["X-Session-Id"], response.headers["X-Turn-Id"]) == ("s", "t")
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache, no-transform"
    assert response.headers["X-Accel-Buffering"] == "no"
