"""A model that is offered no more: what was asked of it is still told, and can be answered again."""

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server


@pytest.fixture(scope="module")
def after(shared_servers: Start, provider: FakeProvider) -> tuple[Server, str, str]:
    """A server that offers `other` alone, a session and its turn, whose message asked for `fake`."""
    provider.behave("fake", Behaviour(tokens=2, end="cut"))
    server = shared_servers(TIMERS + entry(provider))
    session = server.session()
    turn_id = server.send(session, "once", "fake", Idempotency_Key="k1").rest().turn_id
    server.kill()
    (server.home / "timothy.toml").write_text(TIMERS + entry(provider, "other"))
    return server.start(), session, turn_id


def test_a_repeat_is_told_when_its_model_is_offered_no_more(after: tuple[Server, str, str]) -> None:
    server, session, turn_id = after
    again = server.send(session, "once", "fake", Idempotency_Key="k1").rest()
    assert (again.status, again.turn_id, again.end) == (200, turn_id, "stream_cut")
    body = {"message": "once", "model": "fake"}
    headers = {"Idempotency-Key": "k1", "Prefer": "respond-async"}
    answer = server.call("POST", f"/v1/sessions/{session}/messages", body, **headers)
    assert (answer.status_code, answer.json()["turn_id"]) == (202, turn_id)
    fresh = server.send(session, "once", "fake", Idempotency_Key="k2")
    assert (fresh.status, fresh.json()["error"]) == (400, "unknown_model")


def test_a_message_whose_model_is_offered_no_more_is_answered_again_by_the_chain(
    after: tuple[Server, str, str],
) -> None:
    server, session, _ = after
    again = server.retry(session).rest()
    assert (again.status, again.end, again.meta["model"]) == (200, "done", "other")
