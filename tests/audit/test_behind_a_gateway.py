"""A separate gateway changes nothing about how turns end, and its own end is no end of the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.gateway.conftest import TOKEN, GatewayServer
from tests.stories.conftest import TIMERS, Start
from tests.stories.server import Server
from tests.stories.test_turn_table import ROWS, check
from timothy.config import ProviderSettings
from timothy.gateway.local import LocalGateway


def chain(provider: FakeProvider, *names: str) -> LocalGateway:
    """A chain of entries with their names' models."""
    entries = (ProviderSettings(name, "openai", name, base_url=provider.base_url) for name in names)
    return LocalGateway(tuple(entries), Path())


@pytest.fixture(scope="module")
def behind(shared_servers: Start, provider: FakeProvider) -> Iterator[Server]:
    """A server whose chain, with the one entry `fake`, is a separate gateway's."""
    with GatewayServer(chain(provider, "fake")) as gateway:
        yield shared_servers(TIMERS, GATEWAY_URL=gateway.url, TIMOTHY_GATEWAY_TOKEN=TOKEN)


@pytest.mark.parametrize("name", ROWS)
def test_a_turn_behind_a_gateway_ends_as_the_table_says(
    behind: Server, provider: FakeProvider, name: str
) -> None:
    row = ROWS[name]
    provider.behave("fake", row.behaviour)
    session = behind.session()
    evidence = check(behind, session, behind.send(session).rest(), row)
    if row.behaviour.status != 200 or row.behaviour.end == "error":
        assert row.behaviour.message in evidence["payload"]["message"], "the provider's own words"


def test_a_stop_behind_a_gateway_is_booked_and_leaves_the_provider(
    behind: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", tokens=2, end="hang")
    session = behind.session()
    tab = behind.send(session)
    tab.until("text_delta")
    assert behind.stop(session).json()["outcome"] == "stopped"
    tab.rest()
    (attempt,) = behind.turn(session, tab.turn_id)["attempts"]
    assert (attempt["provider"], attempt["status"], attempt["code"]) == ("fake", "stopped", "stopped")
    assert provider.wait_ended("fake").ended == "client_closed"


def test_a_model_that_the_gateway_does_not_have_is_named(behind: Server, provider: FakeProvider) -> None:
    answer = behind.call("POST", f"/v1/sessions/{behind.session()}/messages", {"message": "x", "model": "m"})
    assert (answer.status_code, answer.json()["error"]) == (400, "unknown_model")
    assert "fake" in answer.json()["message"]
    assert provider.requests("fake") == []


def test_a_gateway_that_is_shut_down_fails_the_turn_and_does_not_interrupt_the_server(
    servers: Start, provider: FakeProvider
) -> None:
    provider.behave("fake", tokens=2, end="hang")
    with GatewayServer(chain(provider, "fake")) as gateway:
        server = servers(TIMERS, GATEWAY_URL=gateway.url, TIMOTHY_GATEWAY_TOKEN=TOKEN)
        session = server.session()
        tab = server.send(session)
        tab.until("text_delta")
    tab.rest()
    evidence = server.evidence(session, tab.turn_id)
    assert (tab.end, tab.meta["outcome"]) == ("gateway_stream_cut", "failed")
    assert (evidence["kind"], evidence["payload"]["text"]) == ("pending_state", tab.text)
    later = server.send(session).rest()
    assert (later.end, later.meta["outcome"]) == ("provider_unreachable", "failed")
    assert gateway.url in later.terminal["message"]


def test_a_gateways_entry_can_be_tried_from_the_server(behind: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(text="blue"), Behaviour(status=401, message="who are you"))
    good, bad = (behind.call("POST", "/v1/providers/test", {"name": "fake"}).json() for _ in range(2))
    assert (good["ok"], good["text"]) == (True, "blue")
    assert (bad["ok"], bad["code"], "who are you" in bad["message"]) == (False, "auth_failed", True)
    assert behind.call("POST", "/v1/providers/test", {"name": "local"}).status_code == 400
