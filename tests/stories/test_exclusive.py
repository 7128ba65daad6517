"""At most one turn runs in a session; the loser is told which, and leaves nothing behind."""

import threading
import time

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server
from tests.stories.wire import Stream


def test_a_hundred_double_sends_are_one_turn_each(server: Server, provider: FakeProvider) -> None:
    """Fifty in each world."""
    provider.behave("fake", hold=0)
    for _ in range(50):
        session = server.session()
        streams: list[Stream] = []
        barrier = threading.Barrier(2)

        def send(
            session: str = session, streams: list[Stream] = streams, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            streams.append(server.send(session, "twice"))

        threads = [threading.Thread(target=send) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winner, loser = sorted(streams, key=lambda stream: stream.status)
        assert (winner.status, loser.status) == (200, 409)
        told = loser.json()
        assert (told["error"], told["turn_id"]) == ("turn_in_flight", winner.turn_id)
        assert server.stop(session).json() == {"turn_id": winner.turn_id, "outcome": "stopped"}
        winner.close()
        kinds = [row["kind"] for row in server.get(f"/v1/sessions/{session}/events")["events"]]
        assert [kind for kind in kinds if kind != "title_set"] == [
            "session_started",
            "user_message",
            "turn_failed",
        ]


def test_a_retry_and_a_delete_lose_too_while_a_turn_runs(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=1)
    session = server.session()
    tab = server.send(session)
    for method, path in (("POST", "/messages"), ("POST", "/messages/retry"), ("DELETE", "")):
        answer = server.call(method, f"/v1/sessions/{session}{path}", {"message": "again"})
        assert (answer.status_code, answer.json()["error"]) == (409, "turn_in_flight")
        assert answer.json()["turn_id"] == tab.turn_id
    provider.release("fake")
    assert tab.rest().end == "done"


def test_two_sessions_run_at_the_same_time(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=1)
    tabs = [server.send(server.session()) for _ in range(5)]
    for tab in tabs:
        tab.until("text_delta")
    provider.release("fake")
    assert [tab.rest().end for tab in tabs] == ["done"] * 5


def test_a_send_right_after_meta_is_never_refused(scripted: Server) -> None:
    """Several clients, each in a session of its own, with no pause: a thousand turns in both worlds."""
    wrong: list[str] = []

    def converse() -> None:
        session = scripted.session()
        for number in range(63):
            stream = scripted.send(session, f"quick {number}")
            if stream.status != 200:
                wrong.append(f"message {number}: {stream.status}")
                return
            for frame in stream:
                if frame.type == "meta":
                    break  # at once: the stream may still be closing
            stream.close()
            if stream.end != "done":
                wrong.append(f"message {number}: {stream.end}")

    clients = [threading.Thread(target=converse) for _ in range(8)]
    began = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert wrong == [], f"after {time.monotonic() - began:.1f} s"


def test_the_claim_is_free_as_soon_as_the_terminal_event_is_read(
    server: Server, provider: FakeProvider
) -> None:
    session = server.session()
    for number in range(20):
        tab = server.send(session, f"message {number}")
        tab.until("done")
        seen = server.read(session)
        assert seen["turn_active"] is False
        assert seen["items"][-1]["turn_id"] == tab.turn_id
        tab.close()
