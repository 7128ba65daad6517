"""Cooling: who is skipped, for how long, and what brings an entry back."""

import pytest

from tests.gateway.conftest import ANSWER, FakeChain, attempts, fails, shown
from timothy.events import Failover, Retry


@pytest.mark.parametrize("code", ["rate_limited", "overloaded"])
def test_an_entry_that_asks_for_time_is_skipped_for_the_whole_of_it(code):
    chain = FakeChain([fails(code, retry_after_s=90), ANSWER], [ANSWER])
    chain.ask()
    chain.time.pass_by(89)
    assert attempts(chain.ask()) == [("b", "ok", None)]
    assert chain.gateway.providers()[0].cooling_until == "T1090"
    chain.time.pass_by(2)
    assert attempts(chain.ask()) == [("a", "ok", None)]


def test_ten_minutes_are_the_longest_rest():
    chain = FakeChain([fails("overloaded", retry_after_s=86400), ANSWER], [ANSWER])
    chain.ask()
    assert chain.gateway.providers()[0].cooling_until == "T1600"


def test_three_failures_in_a_row_cool_an_entry_for_thirty_seconds():
    chain = FakeChain([fails("provider_error")], [ANSWER])
    for _ in range(3):
        assert attempts(chain.ask())[0][0] == "a"
    assert attempts(chain.ask()) == [("b", "ok", None)]
    chain.time.pass_by(30)
    assert attempts(chain.ask())[0][0] == "a"


def test_a_success_in_between_starts_the_count_anew():
    failure = fails("provider_error")
    chain = FakeChain([failure, failure, ANSWER, failure, failure, ANSWER], [ANSWER])
    for _ in range(6):
        chain.ask()
    assert chain.asked()["a"] == 6


def test_an_entry_that_fails_after_its_rest_rests_again_at_once():
    chain = FakeChain([fails("provider_error")], [ANSWER])
    for _ in range(3):
        chain.ask()
    chain.time.pass_by(30)
    chain.ask()
    assert attempts(chain.ask()) == [("b", "ok", None)]


def test_skipping_is_no_failover():
    chain = FakeChain([fails("overloaded", retry_after_s=90)], [ANSWER])
    chain.ask()
    assert shown(chain.ask()) == list(ANSWER)


def test_when_all_cool_the_one_that_is_free_first_is_tried():
    chain = FakeChain([fails("rate_limited", retry_after_s=600)], [*[fails("auth_failed")] * 3, ANSWER])
    for _ in range(3):
        chain.ask()
    assert [row.cooling_until for row in chain.gateway.providers()] == ["T1600", "T1030"]
    assert attempts(chain.ask()) == [("b", "ok", None)]


def test_a_cooling_entry_is_the_last_resort_when_no_other_can_serve():
    chain = FakeChain([fails("overloaded", retry_after_s=90), ANSWER], [ANSWER, fails("auth_failed")])
    chain.ask()
    assert shown(chain.ask()) == [Failover("b", "a", "auth_failed"), *ANSWER]


def test_the_retries_are_for_the_last_entry_that_can_serve():
    chain = FakeChain([fails("overloaded")], [fails("auth_failed", retry_after_s=5)])
    for _ in range(3):
        chain.ask()
    retries = [event for event in chain.ask() if isinstance(event, Retry)]
    assert len(retries) == 2


def test_the_end_of_an_older_answer_does_not_end_a_rest():
    chain = FakeChain([[]], [ANSWER])
    cooling = chain.gateway._cooling
    began = chain.time.now
    chain.time.pass_by(1)
    cooling.note("a", chain.time.now, fails("overloaded", retry_after_s=90)[0])
    cooling.note("a", began, ANSWER[-1])
    assert chain.gateway.providers()[0].cooling_until == "T1091"


def test_a_provider_shows_its_last_error_until_it_serves_again():
    chain = FakeChain([fails("auth_failed", "bad key"), ANSWER], [ANSWER])
    chain.ask()
    row = chain.gateway.providers()[0]
    assert (row.healthy, row.cooling_until, row.last_error) == (False, None, "auth_failed: bad key")
    chain.ask()
    row = chain.gateway.providers()[0]
    assert (row.healthy, row.last_error) == (True, None)
