"""What makes a message the same when its Idempotency-Key comes again: its text and what is attached to it."""

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server
from tests.stories.wire import Stream

NOTES = {"name": "notes.txt", "media_type": "text/plain", "text": "plum"}
OTHER = {**NOTES, "text": "pear"}


def send(server: Server, session: str, *attachments: object) -> Stream:
    body = {"message": "look", "attachments": attachments}
    return server.stream("POST", f"/v1/sessions/{session}/messages", body, Idempotency_Key="k1")


def test_a_repeat_with_other_attachments_is_another_message(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    first = send(server, session, NOTES).rest()
    assert send(server, session, NOTES).rest().turn_id == first.turn_id
    for others in ((OTHER,), (NOTES, OTHER), ({**NOTES, "name": "more.txt"},), ()):
        answer = send(server, session, *others)
        assert (answer.status, answer.json()["error"]) == (422, "idempotency_mismatch")
    assert len(provider.requests("fake")) == 1


def test_a_repeat_of_text_that_was_repaired_is_the_same_message(server: Server) -> None:
    session = server.session()
    half = "half a pair \ud83d, a NUL \x00"
    first = server.send(session, half, Idempotency_Key="k1").rest()
    assert first.events[0]["message"] == "half a pair \ufffd, a NUL \ufffd"
    assert server.send(session, half, Idempotency_Key="k1").rest().turn_id == first.turn_id
