"""`timothy gateway` as a process: what it prints, whom it serves, and what its end looks like."""

import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from contextlib import closing

import pytest

from tests.gateway.conftest import REQUEST, TOKEN, Reading, attempts, is_text
from timothy.cancel import Cancel
from timothy.events import Done, TextDelta
from timothy.gateway.remote import RemoteGateway

TIMOTHY = (sys.executable, "-c", "from timothy.cli import main; main()")
BODY = json.dumps({"messages": [{"role": "user", "text": "Hello"}]})


class Process:
    """A running `timothy gateway` whose one provider is the fake, model `m`; a context manager."""

    def __init__(self, home, provider, heartbeat_s=20.0):
        chain = (
            f'[[providers]]\nname = "a"\ndriver = "openai"\nmodel = "m"\nbase_url = "{provider.base_url}"\n'
        )
        (home / "timothy.toml").write_text(f"[stream]\nheartbeat_s = {heartbeat_s}\n{chain}")
        command = [*TIMOTHY, "gateway", "--home", str(home), "--port", "0"]
        environment = {**os.environ, "TIMOTHY_GATEWAY_TOKEN": TOKEN}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.said = self.process.stdout.readline()
        self.url = self.said.split()[-1]
        self.port = int(self.url.rpartition(":")[2])
        self.gateway = RemoteGateway(self.url, TOKEN)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, method, path, body=None, token=TOKEN):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}", "X-Request-Id": "r1"})
            response = connection.getresponse()
            return response, json.loads(response.read())

    def raw(self):
        """A socket on which a stream was asked for."""
        client = socket.create_connection(("127.0.0.1", self.port))
        client.settimeout(5)
        head = f"POST /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        client.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode())
        return client


@pytest.fixture
def process(tmp_path, provider):
    with Process(tmp_path, provider, heartbeat_s=0.1) as running:
        yield running


def read_until(client, wanted):
    received = b""
    while wanted not in received:
        data = client.recv(65536)
        assert data, received
        received += data
    return received


def test_it_says_where_it_listens_and_serves_the_chain(process, provider):
    assert process.said == f"Timothy's gateway listens on {process.url}\n"
    events = list(process.gateway.stream(REQUEST, Cancel()))
    assert (attempts(events), events[-1]) == ([("a", "ok", None)], Done("stop"))
    assert [row.id for row in process.gateway.models()] == ["m"]
    response, health = process.ask("GET", "/health", token="none")
    assert (response.status, health) == (200, {"status": "ok", "checks": {"a": "ok"}})


@pytest.mark.parametrize(
    ("method", "path", "body", "token", "status", "code"),
    [
        ("GET", "/v1/models", None, "wrong", 401, "unauthorized"),
        ("POST", "/v1/stream", BODY, "", 401, "unauthorized"),
        ("GET", "/v1/nothing", None, TOKEN, 404, "not_found"),
        ("GET", "/v1/stream", None, TOKEN, 405, "method_not_allowed"),
        ("POST", "/v1/stream", "{", TOKEN, 400, "bad_request"),
        ("POST", "/v1/stream", '{"messages": 1}', TOKEN, 400, "bad_request"),
    ],
)
def test_what_cannot_be_had_is_refused_as_json(shared, method, path, body, token, status, code):
    response, answer = shared.ask(method, path, body, token)
    assert (response.status, answer["error"]) == (status, code)
    assert answer["message"]
    assert response.headers["X-Request-Id"] == "r1"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    class Nowhere:
        base_url = "http://127.0.0.1:9/v1"

    with Process(tmp_path_factory.mktemp("home"), Nowhere) as running:
        yield running


def test_headers_and_a_comment_leave_before_the_provider_answers_and_pings_follow(process, provider):
    provider.behave("m", hold="headers")
    with process.raw() as client:
        received = read_until(client, b": ping\n\r\n")
        head, _, body = received.partition(b"\r\n\r\n")
        assert b"Content-Type: text/event-stream; charset=utf-8" in head
        assert b"Cache-Control: no-cache, no-transform" in head
        assert body.index(b": timothy gateway\n") < body.index(b"data: ")
        provider.release("m")
        read_until(client, b'"done"')


def test_a_client_that_leaves_closes_the_providers_socket_at_once(process, provider):
    provider.behave("m", tokens=2, hold=1)
    times = []
    for number in range(1, 8):
        client = process.raw()
        read_until(client, b"t0")
        left = time.monotonic()
        client.close()
        entry = provider.wait_ended("m", number)
        assert entry.ended == "client_closed"
        times.append(entry.ended_at - left)
    assert statistics.median(times) < 0.25


def test_a_gateway_that_is_killed_in_mid_stream_is_a_cut_and_keeps_what_came(process, provider):
    provider.behave("m", tokens=3, hold=2)
    reading = Reading(process.gateway)
    reading.until(lambda event: is_text(event) and "t1" in event.text)
    process.process.kill()
    events = reading.end()
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).split() == ["t0", "t1"]
    assert attempts(events) == [("a", "error", "gateway_stream_cut")]
    assert events[-1].code == "gateway_stream_cut"
    assert provider.wait_ended("m").ended == "client_closed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_is_told_to_running_streams(process, provider, number):
    provider.behave("m", tokens=3, hold=2)
    reading = Reading(process.gateway)
    reading.until(is_text)
    process.process.send_signal(number)
    events = reading.end()
    assert attempts(events) == [("a", "stopped", "stopped")]
    assert events[-1].code == "gateway_stream_cut" and "shutting down" in events[-1].message
    assert process.process.wait(5) == 0


def test_it_does_not_start_without_a_token(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TIMOTHY_GATEWAY_TOKEN"}
    command = [*TIMOTHY, "gateway", "--home", str(tmp_path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1
    assert "TIMOTHY_GATEWAY_TOKEN" in result.stderr
