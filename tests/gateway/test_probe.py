"""The probe asks every provider and says what to mend."""

import threading
import typing

import pytest

from tests.gateway.conftest import ANSWER, FakeChain, FakeDriver, GatewayServer, entries, fails
from timothy import errors
from timothy.config import Config, ProviderSettings
from timothy.errors import ConfigError
from timothy.events import Done, ReasoningDelta, TextDelta
from timothy.gateway.probe import ADVICE, QUESTION, probe, probe_through, report
from timothy.gateway.remote import RemoteGateway

SCRIPTED = Config(providers=(ProviderSettings(name="a", driver="scripted", model="m"),))


def ask(play, tmp_path):
    driver = FakeDriver((play,))
    [result] = probe(SCRIPTED, tmp_path, driver=lambda entry, home: driver)
    assert (driver.requests, driver.closed) == ([QUESTION], -1)
    return result


def test_what_came_back_is_shown_with_its_times(tmp_path):
    result = ask([TextDelta("Bl"), TextDelta("ue"), Done("stop")], tmp_path)
    assert (result.ok, result.said, result.code, result.advice) == (True, "Blue", None, None)
    assert result.first_token_ms <= result.duration_ms
    assert report([result]).startswith("ok      a (scripted, m): 'Blue' in ")


def test_thinking_without_an_answer_is_told_as_such(tmp_path):
    assert "thoughts" in ask([ReasoningDelta("Hm"), Done("length")], tmp_path).said


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_every_failure_comes_with_its_words_and_what_to_mend(code, tmp_path):
    result = ask(fails(code, "the provider's words"), tmp_path)
    assert (result.ok, result.code, result.advice) == (False, code, ADVICE[code])
    text = report([result])
    assert "the provider's words" in text
    assert ADVICE[code] in text


def test_there_is_advice_for_every_failure_of_a_provider():
    def kinds(kind):
        return {kind.code}.union(*(kinds(child) for child in kind.__subclasses__()))

    assert kinds(errors.ProviderError) <= set(ADVICE)


def test_every_entry_is_asked_once_and_without_retries(provider, tmp_path):
    chain = entries(provider, "overloaded", "normal?tokens=1", "hang")
    results = probe(Config(providers=chain), tmp_path, limit_s=0.3)
    assert [result.code for result in results] == ["overloaded", None, "provider_timeout"]
    assert [entry.model for entry in provider.requests()] == ["overloaded", "normal?tokens=1", "hang"]
    assert "0.3 s" in results[2].message


@pytest.mark.parametrize("error", [ConfigError("no script"), ImportError("no engine")])
def test_an_entry_that_cannot_be_set_up_is_a_result_too(error, tmp_path):
    def driver(entry, home) -> typing.NoReturn:
        raise error

    [result] = probe(SCRIPTED, tmp_path, driver=driver)
    assert not result.ok
    assert str(error) in result.message


def test_a_gateways_entries_are_asked_through_it_each_once_and_for_itself():
    chain = FakeChain([ANSWER], [fails("overloaded", "busy")], [fails("bad_request", "too odd")])
    results = probe_through(chain.gateway)
    assert [(result.provider, result.ok, result.code) for result in results] == [
        ("a", True, None),
        ("b", False, "overloaded"),
        ("c", False, "bad_request"),
    ]
    assert ("busy" in results[1].message, "too odd" in results[2].message) == (True, True)
    assert results[0].said == "Hi" and results[0].first_token_ms is not None
    assert chain.asked() == {"a": 1, "b": 1, "c": 1}


def test_one_entry_of_a_gateway_can_be_asked_alone():
    chain = FakeChain([ANSWER], [ANSWER])
    assert [result.provider for result in probe_through(chain.gateway, name="b")] == ["b"]
    assert chain.asked() == {"a": 0, "b": 1}


def test_an_entry_that_rests_is_told_as_such_and_not_taken_for_the_one_that_serves():
    chain = FakeChain([fails("rate_limited", "slow down", retry_after_s=60)], [ANSWER])
    chain.ask()
    resting, serving = probe_through(chain.gateway)
    assert (resting.ok, serving.ok) == (False, True)
    assert "slow down" in resting.message


def test_a_slow_entry_of_a_gateway_is_given_up_after_the_limit(provider, opened):
    (result,) = probe_through(opened(entries(provider, "hang")), limit_s=0.2)
    assert (result.code, "0.2 s" in result.message) == ("provider_timeout", True)


def test_a_person_who_breaks_off_waits_for_no_timer(monkeypatch):
    chain = FakeChain([ANSWER])

    def interrupted(request, cancel):
        raise KeyboardInterrupt

    monkeypatch.setattr(chain.gateway, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        probe_through(chain.gateway)
    for timer in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
        timer.join(5)
        assert not timer.is_alive()


def test_a_gateway_that_cannot_be_asked_is_a_result_with_what_to_mend():
    with GatewayServer(FakeChain([ANSWER]).gateway) as server:
        (refused,) = probe_through(RemoteGateway(server.url, "wrong"))
    (gone,) = probe_through(RemoteGateway(server.url, "any"))
    assert (refused.code, "TIMOTHY_GATEWAY_TOKEN" in refused.advice) == ("auth_failed", True)
    assert (gone.code, "GATEWAY_URL" in gone.advice) == ("provider_unreachable", True)
