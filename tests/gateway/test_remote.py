"""The hop to a separate gateway: nothing changes on the way, and every way it can break has a name."""

import re
import socket
import threading
from contextlib import closing, contextmanager

import pytest

from tests.gateway.conftest import ANSWER, REQUEST, FakeChain, GatewayServer, Reading, attempts, fails
from timothy.cancel import Cancel
from timothy.config import Config
from timothy.conversation import Message, ModelRequest
from timothy.errors import AuthFailed, GatewayError, ProviderUnreachable, StartError
from timothy.events import (
    AttemptEnded,
    AttemptStarted,
    Done,
    Error,
    Incomplete,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
    encode,
)
from timothy.gateway.base import knows
from timothy.gateway.local import LocalGateway
from timothy.gateway.open import open_gateway
from timothy.gateway.remote import RemoteGateway

CALL = (ToolCallStarted("1", "calculate"), ToolCall("1", "calculate", {"a": [1, None]}), Done("tool_calls"))
SCENARIOS = {
    "answer": lambda: FakeChain([ANSWER]),
    "line ends inside text": lambda: FakeChain([[TextDelta("a\u2028\u2029\x85\r\n\n\0b"), Done("stop")]]),
    "reasoning, call, usage": lambda: FakeChain([[ReasoningDelta("Hm"), Usage(9, 8, 7), *CALL]]),
    "incomplete": lambda: FakeChain([[TextDelta("Hi"), Incomplete("length"), Done("length")]]),
    "failover": lambda: FakeChain([fails("overloaded", retry_after_s=3)], [ANSWER]),
    "retries": lambda: FakeChain([fails("provider_error"), fails("rate_limited"), ANSWER]),
    "one failed": lambda: FakeChain([fails("auth_failed", "bad key")]),
    "all failed": lambda: FakeChain([fails("auth_failed")], [fails("overloaded")]),
    "all empty": lambda: FakeChain([[Done("stop")]], [[Done("stop")]]),
    "overflow": lambda: FakeChain([fails("context_overflow", prompt_tokens=921, context_window=512)]),
    "cut after text": lambda: FakeChain([[TextDelta("Hi")]]),
    "raised": lambda: FakeChain([[TextDelta("Hi"), ValueError("oh no")]]),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_events_are_the_same_in_process_and_behind_http(name):
    chain, twin = SCENARIOS[name](), SCENARIOS[name]()
    with GatewayServer(twin.gateway) as server:
        assert list(server.gateway.stream(REQUEST, Cancel())) == chain.ask()


def test_the_request_arrives_whole():
    chain = FakeChain([ANSWER])
    request = ModelRequest(
        (Message("user", "\u2028 \U0001f600"),),
        system="Be kind",
        model="model-a",
        continues=True,
        turn_id="t",
    )
    with GatewayServer(chain.gateway) as server:
        list(server.gateway.stream(request, Cancel()))
    assert chain.drivers["a"].requests == [request]


def test_ten_thousand_tokens_lose_nothing():
    pieces = [TextDelta(f"{number} ") for number in range(10_000)]
    chain = FakeChain([[*pieces, Done("stop")]])
    with GatewayServer(chain.gateway) as server:
        events = list(server.gateway.stream(REQUEST, Cancel()))
    assert [event for event in events if isinstance(event, TextDelta)] == pieces


def received_whole(client):
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(65536)
    length = re.search(rb"Content-Length: (\d+)", received)
    missing = int(length[1]) - len(received.partition(b"\r\n\r\n")[2]) if length else 0
    while missing > 0:
        missing -= len(client.recv(65536))
    return received


@contextmanager
def peer(*answers):
    """A server that answers any request with these bytes, then closes; None keeps the line open."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve():
        client, _ = listener.accept()
        with client:
            requests.append(received_whole(client))  # bytes left unread would make the close a reset
            for answer in answers:
                if answer is None:
                    over.wait(10)
                else:
                    client.sendall(answer)

    requests = []
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with closing(listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        over.set()
        thread.join(5)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n"
STARTED = AttemptStarted("a", "m", "T1")
BEGUN = b"".join(b"data: %b\n\n" % encode(event) for event in (STARTED, TextDelta("Hi"), Usage(5, 1, None)))


@pytest.mark.parametrize(
    ("answers", "code", "words"),
    [
        ([b""], "gateway_stream_cut", "the gateway at"),
        ([b"SSH-2.0\r\n\r\n"], "malformed_stream", "the gateway at"),
        ([HEAD], "gateway_stream_cut", "ended without saying so"),
        ([HEAD, b"data: {nothing\n\n"], "malformed_stream", "no event"),
        ([HEAD, b'data: {"type":"news"}\n\n'], "malformed_stream", "no event"),
        ([HEAD, None], "gateway_stream_cut", "broke off"),
        ([None], "provider_timeout", "no headers"),
        ([b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops"], "overloaded", "oops"),
        ([b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"], "auth_failed", "the gateway at"),
    ],
)
def test_every_way_the_hop_can_break_has_a_name(answers, code, words):
    with peer(*answers) as (url, _):
        gateway = RemoteGateway(url, "t", headers_s=0.2, silence_s=0.2)
        [error] = list(gateway.stream(REQUEST, Cancel()))
    assert error.code == code
    assert words in error.message
    assert url in error.message


def test_what_came_before_the_break_is_kept_and_its_attempt_is_booked():
    with peer(HEAD, BEGUN) as (url, _):
        events = list(RemoteGateway(url, "t").stream(REQUEST, Cancel()))
    row = events[-2]
    assert isinstance(row, AttemptEnded)
    assert events[:-2] == [STARTED, TextDelta("Hi"), Usage(5, 1, None)]
    assert (row.provider, row.status, row.code, row.input_tokens) == ("a", "error", "gateway_stream_cut", 5)
    assert (row.started_at, row.cost, row.first_token_ms is not None) == ("T1", None, True)
    assert events[-1].code == "gateway_stream_cut"


def test_heartbeats_keep_a_silent_hop_alive():
    chain, gate = FakeChain([[]]), threading.Event()
    chain.drivers["a"].plays = [[lambda: gate.wait(5), *ANSWER]]
    with GatewayServer(chain.gateway, heartbeat_s=0.1) as server:
        patient = RemoteGateway(server.url, "gateway-token", silence_s=0.3)
        reading = Reading(patient)
        opener = threading.Timer(0.8, gate.set)
        opener.start()
        assert reading.end()[-1] == Done("stop")
        opener.join()


def test_the_token_and_the_request_id_are_sent_on():
    with peer(HEAD) as (url, requests):
        request = ModelRequest((Message("user", "Hi"),), request_id="abc-1")
        list(RemoteGateway(url + "/v1/", "secret").stream(request, Cancel()))
    assert b"POST /v1/stream HTTP/1.1" in requests[0]
    assert b"\r\nx-request-id: abc-1\r\n" in requests[0].lower()
    assert b"\r\nAuthorization: Bearer secret\r\n" in requests[0]


def test_a_gateway_that_is_not_there_is_named():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    gateway = RemoteGateway(url, "t")
    [error] = list(gateway.stream(REQUEST, Cancel()))
    assert isinstance(error, Error)
    assert (error.code, url in error.message) == ("provider_unreachable", True)
    with pytest.raises(ProviderUnreachable, match=url):
        gateway.models()
    assert knows(gateway, "anything")


def test_a_wrong_token_is_named():
    with GatewayServer(FakeChain([ANSWER]).gateway) as server:
        stranger = RemoteGateway(server.url, "wrong")
        assert [event.code for event in stranger.stream(REQUEST, Cancel())] == ["auth_failed"]
        with pytest.raises(AuthFailed, match="TIMOTHY_GATEWAY_TOKEN"):
            stranger.providers()


def test_an_answer_that_is_no_list_of_models_is_named():
    with peer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (url, _), pytest.raises(GatewayError):
        RemoteGateway(url, "t").models()


def test_a_gateway_that_shuts_down_is_a_broken_hop_with_its_attempt_booked():
    chain = FakeChain([[]])
    with GatewayServer(chain.gateway) as server:
        stop_seen = threading.Event()
        chain.drivers["a"].stream = lambda request, cancel: _until_cancelled(cancel, stop_seen)
        reading = Reading(server.gateway)
        reading.until(lambda event: isinstance(event, TextDelta))
        assert server.streams.shut_down(grace_s=5)
        events = reading.end()
    assert stop_seen.is_set()
    assert attempts(events) == [("a", "stopped", "stopped")]
    assert events[-1].code == "gateway_stream_cut"
    assert "the gateway is shutting down" in events[-1].message


def _until_cancelled(cancel, seen):
    yield TextDelta("Hi")
    if cancel.wait(5):
        seen.set()
    yield Error("stream_cut", "shut", True)


def test_the_gateway_is_here_unless_the_environment_names_one(tmp_path):
    assert isinstance(open_gateway(_scripted(), tmp_path, {}), LocalGateway)
    named = {"GATEWAY_URL": "http://127.0.0.1:1", "TIMOTHY_GATEWAY_TOKEN": "t"}
    assert isinstance(open_gateway(_scripted(), tmp_path, named), RemoteGateway)


@pytest.mark.parametrize(
    "environment", [{"GATEWAY_URL": "http://x"}, {"GATEWAY_URL": "x:1", "TIMOTHY_GATEWAY_TOKEN": "t"}]
)
def test_a_gateway_that_cannot_be_used_refuses_the_start(tmp_path, environment):
    with pytest.raises(StartError, match="GATEWAY_URL"):
        open_gateway(_scripted(), tmp_path, environment)


def _scripted():
    import msgspec

    return msgspec.convert({"providers": [{"name": "demo", "driver": "scripted"}]}, Config)
