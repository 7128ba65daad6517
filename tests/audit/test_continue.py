"""What a continued answer goes on from: the answer that was cut last, whole, and nothing else."""

from typing import Any

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import Start, entry
from tests.stories.server import Server


def asked(provider: FakeProvider) -> list[tuple[str, Any]]:
    """Role and text of the last request, without the system's words."""
    messages = provider.requests("fake")[-1].body["messages"]
    return [(message["role"], message["content"]) for message in messages if message["role"] != "system"]


def test_an_answer_cut_twice_is_continued_from_both_pieces(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(text="one", end="cut"), Behaviour(text="two", end="cut"), Behaviour())
    session = server.session()
    server.send(session, "question").rest()
    server.retry(session, "continue").rest()
    server.retry(session, "continue").rest()
    assert asked(provider) == [("user", "question"), ("assistant", "onetwo")]


def test_an_answer_begun_anew_is_continued_without_the_one_before(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", Behaviour(text="one", end="cut"), Behaviour(text="two", end="cut"), Behaviour())
    session = server.session()
    server.send(session, "question").rest()
    server.retry(session, "again").rest()
    server.retry(session, "continue").rest()
    assert asked(provider) == [("user", "question"), ("assistant", "two")]


def test_nothing_to_go_on_from_is_no_cut_off_answer(servers: Start, provider: FakeProvider) -> None:
    """Also with a provider that is known to refuse an assistant's message at the end."""
    refusal = Behaviour(status=400, message="the last message must not be an assistant prefill")
    provider.behave("fake", Behaviour(text="one", end="cut"), refusal, Behaviour())
    server = servers(entry(provider))
    session = server.session()
    server.send(session, "question").rest()
    assert server.retry(session, "continue").rest().end == "done"
    assert [role for role, _ in asked(provider)] == ["user"] and "one" in asked(provider)[0][1]
    provider.behave("fake", Behaviour(status=400), Behaviour())
    session = server.session()
    server.send(session, "question").rest()
    assert server.retry(session, "continue").rest().end == "done"
    assert asked(provider) == [("user", "question")]
