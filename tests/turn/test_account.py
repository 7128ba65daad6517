"""What a turn has cost: sums of what was told, and unknown where something was not."""

import pytest

from timothy.events import AttemptEnded, AttemptStarted, Usage
from timothy.turn.account import Account

STARTED = AttemptStarted("p", "m", "t0")


def ended(status="ok", cost=None, provider="p"):
    return AttemptEnded(provider, "m", status, None, 1, 2, None, cost, 3, 4, "t0")


def test_a_turn_that_asked_nobody_knows_nothing():
    account = Account()
    assert (account.usage, account.cost, account.provider, account.model) == (None, None, None, None)
    assert account.cut("stopped", 1.0) is None


def test_usage_is_the_sum_over_requests_and_the_last_word_within_one():
    account = Account()
    account.opened(STARTED, 0.0)
    assert account.told(Usage(10, 1, None)) == Usage(10, 1, None)
    assert account.told(Usage(10, 5, 2)) == Usage(10, 5, 2)
    account.closed(ended())
    account.opened(STARTED, 0.0)
    assert account.told(Usage(20, None, 1)) == Usage(30, 5, 3)
    account.closed(ended())
    assert account.usage == Usage(30, 5, 3)


def test_what_nobody_told_stays_unknown():
    account = Account()
    account.told(Usage(None, None, None))
    assert account.usage == Usage(None, None, None)


@pytest.mark.parametrize(
    ("attempts", "cost"),
    [
        ([], None),
        ([("ok", None)], None),
        ([("ok", 0.0)], 0.0),
        ([("ok", 0.5), ("ok", 0.25)], 0.75),
        ([("ok", 0.5), ("ok", None)], None),
        ([("ok", 0.5), ("stopped", None)], None),
        ([("incomplete", None)], None),
        ([("error", None), ("ok", 0.5)], 0.5),
        ([("error", 0.125), ("ok", 0.5)], 0.625),
        ([("error", None)], None),
    ],
)
def test_a_cost_is_known_when_every_part_of_it_is(attempts, cost):
    account = Account()
    for status, part in attempts:
        account.opened(STARTED, 0.0)
        account.closed(ended(status, part))
    assert account.cost == cost


def test_who_served_is_who_came_last():
    account = Account()
    account.opened(STARTED, 0.0)
    account.closed(ended("error"))
    account.opened(AttemptStarted("second", "n", "t1"), 0.0)
    assert (account.provider, account.model) == ("second", "n")


def test_an_attempt_that_we_cut_is_booked_with_what_is_known_of_it():
    account = Account()
    account.opened(STARTED, 10.0)
    account.told(Usage(7, 3, None))
    cut = account.cut("turn_timeout", 12.5)
    assert cut == AttemptEnded("p", "m", "stopped", "turn_timeout", 7, 3, None, None, None, 2500, "t0")
    assert account.cut("turn_timeout", 13.0) is None
    assert (account.usage, account.cost) == (Usage(7, 3, None), None)


def test_an_attempt_that_we_cut_tells_when_it_first_spoke():
    account = Account()
    account.opened(STARTED, 10.0)
    account.spoke(lambda: 10.4)
    account.spoke(lambda: 11.0)
    cut = account.cut("stopped", 12.5)
    assert cut is not None and (cut.first_token_ms, cut.duration_ms) == (400, 2500)
    account.opened(STARTED, 20.0)
    silent = account.cut("stopped", 21.0)
    assert silent is not None and silent.first_token_ms is None
