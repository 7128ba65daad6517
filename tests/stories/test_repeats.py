"""A send with an Idempotency-Key may be repeated at any time: one turn, and its stream told again."""

import threading

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server
from tests.stories.wire import Stream


def repeated(stream: Stream) -> bool:
    return stream.headers.get("idempotent-replayed") == "true"


def messages(server: Server, session: str) -> list[str]:
    return [row["payload"]["text"] for row in server.events(session) if row["kind"] == "user_message"]


def test_a_repeat_while_the_turn_runs_gets_its_stream_from_the_start(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", tokens=4, hold=2)
    session = server.session()
    first = server.send(session, "once", Idempotency_Key="k1")
    first.until("text_delta")
    second = server.send(session, "once", Idempotency_Key="k1", Last_Event_ID=f"{first.turn_id}:3")
    assert (repeated(first), repeated(second)) == (False, True)
    provider.release("fake")
    assert [frame.raw for frame in second.rest().frames] == [frame.raw for frame in first.rest().frames]
    assert len(provider.requests("fake")) == 1
    assert messages(server, session) == ["once"]


ENDS = {
    "whole": (Behaviour(tokens=3), ["turn_started", "text_delta", "done", "meta"]),
    "cut by length": (
        Behaviour(tokens=3, finish_reason="length"),
        ["turn_started", "text_delta", "incomplete", "done", "meta"],
    ),
    "cut by the provider": (Behaviour(tokens=3, end="cut"), ["turn_started", "text_delta", "error", "meta"]),
    "refused": (Behaviour(status=400), ["turn_started", "error", "meta"]),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_repeat_after_the_end_is_told_from_the_log(
    server: Server, provider: FakeProvider, end: str
) -> None:
    behaviour, kinds = ENDS[end]
    provider.behave("fake", behaviour)
    session = server.session()
    first = server.send(session, "once", Idempotency_Key="k1").rest()
    again = server.send(session, "once", Idempotency_Key="k1", Last_Event_ID="7").rest()
    assert (again.status, repeated(again), again.kinds) == (200, True, kinds)
    assert (again.turn_id, again.text, again.terminal) == (
        first.turn_id,
        first.text,
        {**first.terminal, "seq": again.terminal["seq"]},
    )
    assert again.events[0] == first.events[0]
    assert {**again.meta, "title": None, "seq": 0} == {**first.meta, "title": None, "seq": 0}
    assert len(provider.requests("fake")) == 1


def test_a_repeat_after_a_restart_is_told_from_the_log(servers: Start, provider: FakeProvider) -> None:
    server = servers(TIMERS + entry(provider))
    session = server.session()
    first = server.send(session, "once", Idempotency_Key="k1").rest()
    server.kill()
    server.start()
    again = server.send(session, "once", Idempotency_Key="k1").rest()
    assert (repeated(again), again.turn_id, again.text) == (True, first.turn_id, first.text)
    assert again.kinds == ["turn_started", "text_delta", "done", "meta"]


def test_a_repeat_that_does_not_wait_gets_the_same_ids(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=4, hold=2)
    session = server.session()
    url = f"/v1/sessions/{session}/messages"

    def repeat() -> object:
        headers = {"Prefer": "respond-async", "Idempotency-Key": "k1"}
        answer = server.call("POST", url, {"message": "once"}, **headers)
        assert answer.status_code == 202
        return answer.json()

    first = repeat()
    assert repeat() == first
    stream = server.live(session)
    provider.release("fake")
    stream.rest()
    assert repeat() == first
    assert messages(server, session) == ["once"]


def test_an_old_key_while_another_turn_runs_gets_its_own_replay(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", Behaviour(), Behaviour(tokens=4, hold=2))
    session = server.session()
    first = server.send(session, "first", Idempotency_Key="k1").rest()
    running = server.send(session, "second", Idempotency_Key="k2")
    running.until("text_delta")
    again = server.send(session, "first", Idempotency_Key="k1").rest()
    assert (again.status, again.turn_id, repeated(again)) == (200, first.turn_id, True)
    provider.release("fake")
    assert running.rest().end == "done"


def test_the_same_key_with_another_message_is_refused(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    server.send(session, "once", Idempotency_Key="k1").rest()
    answer = server.send(session, "twice", Idempotency_Key="k1")
    assert (answer.status, answer.json()["error"]) == (422, "idempotency_mismatch")
    assert messages(server, session) == ["once"]


def test_a_key_belongs_to_its_session(server: Server, provider: FakeProvider) -> None:
    one, other = (server.send(server.session(), "hi", Idempotency_Key="same").rest() for _ in range(2))
    assert one.turn_id != other.turn_id and not repeated(other)


def test_a_key_whose_send_lost_is_free_again(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=4, hold=2)
    session = server.session()
    running = server.send(session, "first")
    running.until("text_delta")
    assert server.send(session, "second", Idempotency_Key="k2").status == 409
    provider.release("fake")
    running.rest()
    later = server.send(session, "another text", Idempotency_Key="k2").rest()
    assert (later.status, repeated(later), later.end) == (200, False, "done")


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 201, "a\tb"])
def test_a_key_that_is_none_is_named(server: Server, key: str) -> None:
    answer = server.send(server.session(), Idempotency_Key=key)
    assert (answer.status, answer.json()["error"]) == (400, "bad_request")


@pytest.mark.parametrize("key", ["!", "~" * 200, 'a"b,c;d={}'])
def test_any_visible_characters_are_a_key(server: Server, key: str) -> None:
    session = server.session()
    first = server.send(session, Idempotency_Key=key).rest()
    assert server.send(session, Idempotency_Key=key).rest().turn_id == first.turn_id


def test_two_sends_at_once_with_one_key_are_one_turn(server: Server, provider: FakeProvider) -> None:
    for _ in range(20):
        session = server.session()
        streams: list[Stream] = []
        barrier = threading.Barrier(3)

        def send(
            session: str = session, streams: list[Stream] = streams, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            streams.append(server.send(session, "once", Idempotency_Key="k").rest())

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [stream.status for stream in streams] == [200] * 3
        assert len({stream.turn_id for stream in streams}) == 1
        assert sorted(map(repeated, streams)) == [False, True, True]
        assert {stream.text for stream in streams} == {"t0 t1 t2 t3 t4 "}
        assert messages(server, session) == ["once"]


def test_a_repeated_retry_is_one_turn_too(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tokens=2, end="cut"), Behaviour())
    session = server.session()
    server.send(session).rest()
    first = server.retry(session, "again", Idempotency_Key="r1").rest()
    again = server.retry(session, "again", Idempotency_Key="r1").rest()
    assert (first.end, again.turn_id, repeated(again)) == ("done", first.turn_id, True)
    other = server.retry(session, "continue", Idempotency_Key="r1")
    assert (other.status, other.json()["error"]) == (422, "idempotency_mismatch")
