"""An answer that outgrows its limit is incomplete everywhere: stream, log, turn and ledger."""

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import Start, entry


def test_an_answer_over_the_limit_is_incomplete_and_its_provider_is_left(
    servers: Start, provider: FakeProvider
) -> None:
    server = servers("[turn]\nmax_text_mb = 0.01\n" + entry(provider))
    provider.behave("fake", Behaviour(text="word " * 20_000, end="hang"))
    session = server.session()
    tab = server.send(session).rest()
    assert tab.kinds[-3:] == ["incomplete", "done", "meta"] and tab.events[-3]["reason"] == "length"
    turn = server.turn(session, tab.turn_id)
    attempts = [(attempt["status"], attempt["code"]) for attempt in turn["attempts"]]
    assert (turn["outcome"], attempts) == ("incomplete", [("incomplete", "length")])
    evidence = server.evidence(session, tab.turn_id)
    assert (evidence["kind"], evidence["payload"]["incomplete"]) == ("assistant_turn", "length")
    assert evidence["payload"]["text"] == tab.text and len(tab.text) >= 10_000
    assert provider.wait_ended("fake").ended == "client_closed"
