"""Exactly one terminal, last, at every hop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timothy.errors import ContextOverflow, GatewayStreamCut, Overloaded, RateLimited, StreamCut
from timothy.events import AttemptEnded, Done, Error, TextDelta, Usage
from timothy.stream import TERMINAL, failure, terminated

TEXT = TextDelta("a")
ENDED = AttemptEnded("p", "m", "ok", None, 1, 2, None, None, 3, 4, "t")


class Source:
    """Gives its events, then raises `error` if there is one; knows whether it was closed."""

    def __init__(self, *events, error=None):
        self.left = list(events)
        self.error = error
        self.closed = 0
        self.read = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.read += 1
        if self.left:
            return self.left.pop(0)
        raise self.error or StopIteration

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("end", [Done("stop"), Error("overloaded", "busy", True)])
def test_the_first_terminal_is_the_last_event(end):
    source = Source(TEXT, end, TEXT, Done("stop"))
    assert list(terminated(source, cut=StreamCut)) == [TEXT, end]
    assert (source.read, source.closed) == (2, 1)


@pytest.mark.parametrize("events", [(), (TEXT,), (TEXT, Usage(1, None, None))])
def test_an_end_without_a_word_gets_the_name_of_the_hop(events):
    source = Source(*events)
    *shown, last = terminated(source, cut=GatewayStreamCut)
    assert tuple(shown) == events
    assert (last.code, last.retryable) == ("gateway_stream_cut", True)
    assert source.closed == 1


def test_the_innermost_hops_name_survives():
    inner = terminated(Source(TEXT), cut=StreamCut)
    assert [event.code for event in terminated(inner, cut=GatewayStreamCut) if event != TEXT] == [
        "stream_cut"
    ]


def test_an_error_of_ours_keeps_its_code_its_words_and_what_the_chain_must_know():
    error = RateLimited("slow down", retry_after_s=7)
    assert list(terminated(Source(TEXT, error=error), cut=StreamCut)) == [
        TEXT,
        Error("rate_limited", "slow down", True, retry_after_s=7),
    ]
    overflow = failure(ContextOverflow("long", prompt_tokens=9, context_window=8))
    assert (overflow.prompt_tokens, overflow.context_window, overflow.retryable) == (9, 8, False)


def test_any_other_exception_ends_the_stream_by_the_hops_name():
    source = Source(TEXT, error=ZeroDivisionError("by zero"))
    last = list(terminated(source, cut=StreamCut))[-1]
    assert (last.code, last.message) == ("stream_cut", "ZeroDivisionError: by zero")
    assert source.closed == 1


def test_a_reader_that_goes_away_closes_the_source():
    source = Source(TEXT, TEXT)
    reader = terminated(source, cut=StreamCut)
    assert next(reader) == TEXT
    reader.close()
    assert source.closed == 1


def test_a_source_that_cannot_be_closed_is_fine():
    assert next(terminated([TEXT], cut=StreamCut)) == TEXT


@given(st.lists(st.sampled_from([TEXT, ENDED, Done("stop"), Error("a", "b", False), Overloaded("x")])))
def test_whatever_the_source_does_there_is_one_terminal_and_it_is_last(steps):
    def source():
        for step in steps:
            if isinstance(step, Exception):
                raise step
            yield step

    told = list(terminated(terminated(source(), cut=StreamCut), cut=GatewayStreamCut))
    assert [isinstance(event, TERMINAL) for event in told] == [False] * (len(told) - 1) + [True]
