"""The ledger tells what is known of every attempt, also of those that were cut short from outside."""

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server

SUM = {"name": "calculate", "arguments": {"expression": "1+1"}}


def test_a_stopped_attempt_tells_when_it_first_spoke(server: Server, provider: FakeProvider) -> None:
    for number, (tokens, spoke) in enumerate(((2, True), (0, False)), 1):
        provider.behave("fake", tokens=tokens, end="hang")
        session = server.session()
        tab = server.send(session)
        if spoke:
            tab.until("text_delta")
        provider.wait_request("fake", number)
        server.stop(session)
        (attempt,) = server.turn(session, tab.rest().turn_id)["attempts"]
        assert attempt["status"] == "stopped"
        assert (attempt["first_token_ms"] is not None) is spoke


@pytest.mark.parametrize(("status", "tries"), [(402, 1), (405, 1), (501, 3)])
def test_a_refusal_without_a_name_is_asked_for_again_only_when_it_may_pass(
    server: Server, provider: FakeProvider, status: int, tries: int
) -> None:
    provider.behave("fake", Behaviour(status=status, message="the own words"))
    session = server.session()
    tab = server.send(session).rest()
    assert (tab.end, tab.terminal["retryable"]) == ("provider_error", tries > 1)
    assert "the own words" in tab.terminal["message"]
    assert tab.kinds.count("retry") == tries - 1
    attempts = server.turn(session, tab.turn_id)["attempts"]
    assert len(attempts) == len(provider.requests("fake")) == tries


def test_a_killed_turn_tells_what_its_finished_attempts_used(servers: Start, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tools=(SUM,)), Behaviour(tokens=0, end="hang"))
    server = servers(TIMERS + entry(provider))
    session = server.session()
    tab = server.send(session)
    tab.until("tool_result")
    provider.wait_request("fake", 2)
    server.kill()
    server.start()
    (attempt,) = server.turn(session, tab.turn_id)["attempts"]
    turn, evidence = server.turn(session, tab.turn_id), server.evidence(session, tab.turn_id)["payload"]
    assert (turn["outcome"], turn["provider"], turn["model"]) == ("interrupted", "fake", "fake")
    assert (evidence["provider"], evidence["model"]) == ("fake", "fake")
    assert turn["usage"]["input_tokens"] == attempt["input_tokens"] > 0
    assert turn["cost"] is None, "what the request under way cost is unknown"
