"""gevent's server: a body that nobody wants is not read for ever, and a HEAD has no body at all."""

import json
import socket
import time

import pytest
import requests

from tests.actors.play import Gate
from tests.web.conftest import TOKEN
from timothy.events import Done
from web import server
from web.app import create_app

HEAD = f"POST /v1/sign-in HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"


@pytest.fixture
def port(house, monkeypatch):
    monkeypatch.setattr(server, "DRAIN_S", 0.3)
    running = server.listen(create_app(house.system, TOKEN), "127.0.0.1", 0)
    yield running.server_port
    running.stop()


@pytest.mark.parametrize("kind", ["Transfer-Encoding: chunked", "Content-Length: 1000000000000"])
def test_a_body_that_has_no_end_is_not_read_for_ever(port, kind):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"{HEAD}{kind}\r\n\r\n".encode())
        began = time.monotonic()
        with pytest.raises(OSError, match=r"pipe|reset"):
            while time.monotonic() - began < 10:
                client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
    assert time.monotonic() - began < 5


def test_a_body_that_was_not_wanted_does_not_become_the_next_request(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(10)
        body = "x" * 50_000
        client.sendall(
            f"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n{body}".encode()
        )
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answers = b"".join(iter(lambda: client.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 200 OK") == 2


def test_a_head_has_no_body(port, house, session_of_a_running_turn):
    url = f"http://127.0.0.1:{port}"
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        for _ in range(2):
            answer = session.head(f"{url}/v1/sessions/{session_of_a_running_turn}/live", timeout=10)
            assert (answer.status_code, answer.content) == (200, b"")
            assert session.get(f"{url}/health", timeout=10).json()["status"] == "ok"
    assert len(house.system.viewers) == 0


@pytest.fixture
def session_of_a_running_turn(house):
    gate = Gate()
    claim = house.turn(gate, Done("stop"))
    yield claim.replay.session_id
    gate.open()


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("nonsense\r\n\r\n", b"400"),
        ("GET /health HTTP/9.9\r\n\r\n", b"400"),
        (f"GET /health?{'x' * 9000} HTTP/1.1\r\nHost: localhost\r\n\r\n", b"414"),
        (f"{HEAD}Content-Length: five\r\n\r\n", b"400"),
        (f"{HEAD}Content-Length: 2\r\nContent-Length: 5\r\n\r\n{{}}", b"400"),
    ],
    ids=["no request", "no version", "too long", "no length", "two lengths"],
)
def test_what_is_no_request_gets_an_error_of_the_same_shape(port, request_text, status):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(10)
        client.sendall(request_text.encode())
        head, _, body = b"".join(iter(lambda: client.recv(65536), b"")).partition(b"\r\n\r\n")
    assert (
        head.split()[1] == status and b"Content-Type: application/json" in head and b"X-Request-Id: " in head
    )
    assert json.loads(body)["error"] == "bad_request" and json.loads(body)["message"]


def test_the_same_length_twice_is_one_length(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(10)
        length = "Content-Length: 2\r\n"
        client.sendall(f"{HEAD}{length}{length}Connection: close\r\n\r\n{{}}".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert b"`token` is missing" in answer
