"""A turn belongs to its session: whoever closes, cuts or freezes a connection, it goes on to its end."""

import socket
import struct

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server, eventually

RESET = struct.pack("ii", 1, 0)


def test_a_closed_tab_does_not_stop_the_turn(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=6, hold=2)
    session = server.session()
    tab = server.send(session, "go on without me")
    tab.until("text_delta")
    tab.close()
    provider.release("fake")
    assert provider.wait_ended("fake").ended == "complete"
    server.idle(session)
    evidence = server.evidence(session, tab.turn_id)
    assert (evidence["kind"], evidence["payload"]["text"]) == ("assistant_turn", "t0 t1 t2 t3 t4 t5 ")


def test_a_tab_that_leaves_before_the_first_token_does_not_stop_the_turn(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", hold="headers")
    session = server.session()
    tab = server.send(session)
    provider.wait_request("fake")
    tab.close()
    provider.release("fake")
    assert provider.wait_ended("fake").ended == "complete"
    assert eventually(lambda: server.turn(session, tab.turn_id)["outcome"]) == "completed"


def test_a_connection_that_is_reset_does_not_stop_the_turn(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=200, delay_s=0.001, hold=100)
    session = server.session()
    tab = server.send(session)
    tab.until("text_delta")
    tab.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    tab.close()
    other = server.live(session)
    provider.release("fake")
    assert other.rest().end == "done"
    assert other.text == "".join(f"t{number} " for number in range(200))
    assert server.evidence(session, tab.turn_id)["payload"]["text"] == other.text


def test_a_client_that_never_reads_its_response_has_its_turn(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    client = socket.create_connection(tuple(server.url.removeprefix("http://").split(":")))
    head = f"POST /v1/sessions/{session}/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 17\r\n"
    client.sendall(f'{head}Authorization: Bearer {server.token}\r\n\r\n{{"message": "hi"}}'.encode())
    provider.wait_ended("fake")
    client.close()
    items = server.idle(session)
    assert [item["kind"] for item in items] == ["user", "assistant"]


def test_a_turn_that_nobody_watches_runs_to_its_end(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    url = f"/v1/sessions/{session}/messages"
    answer = server.call("POST", url, {"message": "hi"}, Prefer="respond-async")
    assert answer.status_code == 202
    assert set(answer.json()) == {"session_id", "turn_id"}
    turn_id = answer.json()["turn_id"]
    assert eventually(lambda: server.turn(session, turn_id)["outcome"]) == "completed"
    assert server.evidence(session, turn_id)["kind"] == "assistant_turn"


def test_the_next_tab_sees_the_whole_turn_that_the_first_one_left(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", tokens=4, hold=2)
    session = server.session()
    first = server.send(session, "hello")
    first.until("text_delta")
    first.close()
    second = server.live(session)
    started = second.until("turn_started")
    assert started["message"] == "hello" and started["seq"] == 1
    provider.release("fake")
    assert second.rest().end == "done"
    assert second.text == "t0 t1 t2 t3 "
    assert second.meta["outcome"] == "completed"


def test_a_tab_that_left_is_forgotten(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=1)
    for _ in range(10):
        session = server.session()
        tabs = [server.send(session), server.live(session)]
        for tab in tabs:
            tab.until("text_delta")
            tab.close()
        assert server.stop(session).status_code == 200
    eventually(lambda: "\ntimothy_viewers 0\n" in server.call("GET", "/metrics").text)
