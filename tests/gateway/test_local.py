"""The local gateway: names of models, prices, drivers that cannot be loaded."""

from pathlib import Path

import pytest

from tests.gateway.conftest import ANSWER, REQUEST, FakeChain, attempts, fails
from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.errors import ConfigError
from timothy.events import AttemptEnded, Done, Failover, TextDelta, Usage
from timothy.gateway.base import ModelRow, knows
from timothy.gateway.local import LocalGateway


def test_two_entries_with_one_model_have_two_ids():
    chain = FakeChain([ANSWER], [ANSWER], settings=({"model": "m"}, {"model": "m"}))
    assert chain.gateway.models() == [ModelRow("m", "a", "scripted"), ModelRow("b/m", "b", "scripted")]


@pytest.mark.parametrize(
    ("model", "served"), [("m", "a"), ("b/m", "b"), ("a/m", "a"), ("n", "c"), ("c/n", "c")]
)
def test_a_model_puts_its_entry_first(model, served):
    chain = FakeChain([ANSWER], [ANSWER], [ANSWER], settings=({"model": "m"}, {"model": "m"}, {"model": "n"}))
    assert knows(chain.gateway, model)
    assert attempts(chain.ask(model)) == [(served, "ok", None)]


def test_the_chain_follows_after_the_entry_that_was_asked_for():
    chain = FakeChain([ANSWER], [ANSWER], [fails("overloaded")])
    events = chain.ask("model-c")
    assert Failover("c", "a", "overloaded") in events
    assert chain.asked() == {"a": 1, "b": 0, "c": 1}


def test_an_unknown_model_is_named():
    chain = FakeChain([ANSWER])
    assert not knows(chain.gateway, "gpt-9")
    [error] = chain.ask("gpt-9")
    assert error.code == "unknown_model"
    assert "model-a" in error.message


@pytest.mark.parametrize(
    ("prices", "usage", "expected"),
    [
        ({"price_in": 2.0, "price_out": 8.0}, Usage(1000, 500, None), 0.006),
        ({"price_in": 2.0, "price_out": 8.0}, Usage(1000, 500, 400), 0.006),
        ({"price_in": 2.0, "price_out": 8.0, "price_cached": 0.5}, Usage(1000, 500, 400), 0.0054),
        ({"price_in": 0.0, "price_out": 0.0}, Usage(1000, 500, None), 0.0),
        ({"price_in": 2.0}, Usage(1000, 500, None), None),
        ({}, Usage(1000, 500, None), None),
        ({"price_in": 2.0, "price_out": 8.0}, Usage(1000, None, None), None),
        ({"price_in": 2.0, "price_out": 8.0}, None, None),
    ],
)
def test_a_cost_is_what_the_prices_say_or_unknown(prices, usage, expected):
    play = [TextDelta("Hi"), *([usage] if usage else []), Done("stop")]
    chain = FakeChain([play], settings=(prices,))
    row = next(event for event in chain.ask() if isinstance(event, AttemptEnded))
    assert row.cost == (None if expected is None else pytest.approx(expected))


def test_a_failed_attempts_tokens_are_in_the_ledger_too():
    row = next(
        event
        for event in FakeChain([[Usage(7, 1, 3), *fails("auth_failed")]]).ask()
        if isinstance(event, AttemptEnded)
    )
    assert (row.input_tokens, row.output_tokens, row.cached_tokens) == (7, 1, 3)


def test_a_driver_that_cannot_be_loaded_fails_by_name_and_the_chain_goes_on():
    def driver(entry, home):
        if entry.name == "a":
            raise ImportError("No module named 'engine'")
        return FakeChain([ANSWER]).drivers["a"]

    chain = tuple(ProviderSettings(name=name, driver="scripted", model=name) for name in "ab")
    events = list(LocalGateway(chain, Path(), driver=driver).stream(REQUEST, Cancel()))
    assert attempts(events) == [("a", "error", "provider_error"), ("b", "ok", None)]


def test_a_script_that_is_not_there_refuses_the_start(tmp_path):
    entry = ProviderSettings(name="a", driver="scripted", script="none.json")
    with pytest.raises(ConfigError, match=r"none\.json"):
        LocalGateway((entry,), tmp_path)


def test_the_scripted_driver_is_served_whole(tmp_path):
    gateway = LocalGateway((ProviderSettings(name="demo", driver="scripted"),), tmp_path)
    events = list(gateway.stream(REQUEST, Cancel()))
    assert attempts(events) == [("demo", "ok", None)]
    assert "Hello" in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert gateway.models() == [ModelRow("demo", "demo", "scripted")]
    gateway.close()
