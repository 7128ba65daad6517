"""A fetch beside turns that come and go: what it says of them is true at one moment."""

import threading

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server

TURNS = 60


def test_a_fetch_that_sees_no_turn_holds_every_turn_that_ended(
    server: Server, provider: FakeProvider
) -> None:
    session = server.session()
    ended = [0]

    def send() -> None:
        for number in range(TURNS):
            server.send(session, f"message {number}").rest()
            ended[0] += 1

    sender = threading.Thread(target=send)
    sender.start()
    while sender.is_alive():
        before = ended[0]
        seen = server.read(session)
        assert seen["turn_active"] is seen["session"]["turn_active"] is (seen["turn"] is not None)
        kinds = [item["kind"] for item in seen["items"]]
        if not seen["turn_active"]:
            assert kinds.count("assistant") >= before
            assert kinds == (["user", "assistant"] * TURNS)[: len(kinds)]  # one may have begun meanwhile
    sender.join()
    assert ended == [TURNS]


def test_a_key_whose_retry_was_refused_is_free(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    server.send(session).rest()
    refused = server.retry(session, Idempotency_Key="k1")
    assert (refused.status, refused.json()["error"]) == (409, "no_retryable_turn")
    sent = server.send(session, Idempotency_Key="k1").rest()
    assert sent.status == 200 and "idempotent-replayed" not in sent.headers
