"""Deltas that pile up become one event: in order, of one kind and step, and of a bounded length."""

import pytest

from actors.merging import MOST_CHARACTERS, MOST_DELTAS, Held
from actors.messages import Streamed
from timothy.events import ReasoningDelta, TextDelta
from timothy.turn import inputs


def holding(*messages):
    held = Held()
    for message in messages:
        assert held.fits(message)
        held.add(message)
    return held


def test_what_is_held_is_taken_once_as_one_event():
    held = holding(Streamed(1, TextDelta("a")), Streamed(1, TextDelta("b")))
    assert held and held.take() == inputs.Streamed(1, TextDelta("ab"))
    assert not held and held.fits(Streamed(2, ReasoningDelta("c")))


@pytest.mark.parametrize("other", [Streamed(1, ReasoningDelta("b")), Streamed(2, TextDelta("b"))])
def test_another_kind_or_step_is_another_event(other):
    assert not holding(Streamed(1, TextDelta("a"))).fits(other)


@pytest.mark.parametrize(("count", "length"), [(MOST_DELTAS, 1), (1, MOST_CHARACTERS)])
def test_no_event_becomes_as_long_as_what_piled_up(count, length):
    message = Streamed(1, TextDelta("x" * length))
    held = holding(*[message] * (count - 1))
    assert not held.full
    held.add(message)
    assert held.full
    held.take()
    assert not held.full
