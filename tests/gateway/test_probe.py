"""The probe asks every provider and says what to mend."""

import typing

import pytest

from tests.gateway.conftest import FakeDriver, entries, fails
from timothy import errors
from timothy.config import Config, ProviderSettings
from timothy.errors import ConfigError
from timothy.events import Done, ReasoningDelta, TextDelta
from timothy.gateway.probe import ADVICE, QUESTION, probe, report

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
