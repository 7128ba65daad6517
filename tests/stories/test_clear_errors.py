"""Every wrong request is told what is wrong, as JSON with a fitting status, and leaves nothing behind."""

import json
import socket
import uuid
from typing import Any

import pytest
import requests

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server
from tests.stories.wire import Stream

UNKNOWN = str(uuid.UUID(int=7))
NO_IDS = ["x", "0", "-1", "123", "..%2f", "%00", "NULL", "0" * 36, UNKNOWN.replace("-", ""), "é", UNKNOWN]
ROUTES = [
    ("GET", "/v1/sessions/{id}"),
    ("PATCH", "/v1/sessions/{id}"),
    ("DELETE", "/v1/sessions/{id}"),
    ("GET", "/v1/sessions/{id}/events"),
    ("POST", "/v1/sessions/{id}/messages"),
    ("POST", "/v1/sessions/{id}/messages/retry"),
    ("GET", "/v1/sessions/{id}/live"),
    ("POST", "/v1/sessions/{id}/stop"),
    ("GET", "/v1/sessions/{id}/turns/{id}"),
    ("POST", "/v1/permissions/{id}"),
]


def error(answer: requests.Response) -> tuple[int, str]:
    """Status and code of an error that has the one shape of all errors."""
    assert answer.headers["Content-Type"].startswith("application/json")
    body = answer.json()
    assert isinstance(body["message"], str) and body["message"]
    return answer.status_code, body["error"]


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_an_id_that_is_none_or_unknown_is_not_found(server: Server, method: str, route: str) -> None:
    body = {"message": "hi", "title": "t", "decision": "once"}
    for wrong in NO_IDS:
        answer = server.call(method, route.replace("{id}", wrong), None if method == "GET" else body)
        assert error(answer) == (404, "not_found"), wrong


def test_a_turn_of_another_session_is_not_found(server: Server, provider: FakeProvider) -> None:
    session, other = server.session(), server.session()
    turn_id = server.send(session).rest().turn_id
    assert server.turn(session, turn_id)["id"] == turn_id
    assert error(server.call("GET", f"/v1/sessions/{other}/turns/{turn_id}")) == (404, "not_found")


MESSAGES: list[Any] = [
    {},
    {"message": None},
    {"message": ""},
    {"message": " \n\t "},
    {"message": 5},
    {"message": True},
    {"message": ["hi"]},
    {"message": {"text": "hi"}},
    {"message": "x" * 1_000_001},
    {"message": "hi", "model": 5},
    {"message": "hi", "model": ""},
    [],
    ["message"],
    "message",
    5,
    None,
]


@pytest.mark.parametrize("body", MESSAGES, ids=lambda body: json.dumps(body)[:30])
def test_a_wrong_message_is_a_bad_request_and_leaves_nothing(
    server: Server, provider: FakeProvider, body: Any
) -> None:
    session = server.session()
    data = json.dumps(body).encode()
    answer = raw(server, f"/v1/sessions/{session}/messages", data)
    assert error(answer) == (400, "bad_request")
    assert [row["kind"] for row in server.events(session)] == ["session_started"]
    assert provider.requests() == []


def raw(server: Server, path: str, data: bytes, method: str = "POST", **headers: str) -> requests.Response:
    sent = {**server.headers(), "Content-Type": "application/json", **headers}
    return requests.request(method, server.url + path, data=data, headers=sent, timeout=20)


NO_JSON = [
    b"{",
    b"hi",
    b"{'message': 'hi'}",
    b'{"message": "hi"',
    b"\xff\xfe",
    b"{}{}",
    b"[" * 100_000,
    b"NaN",
]


@pytest.mark.parametrize("data", NO_JSON, ids=lambda data: repr(data[:12]))
def test_a_body_that_is_no_json_is_a_bad_request(server: Server, data: bytes) -> None:
    session = server.session()
    for method, path in (
        ("POST", "/messages"),
        ("PATCH", ""),
        ("POST", "/stop"),
        ("POST", "/messages/retry"),
    ):
        assert error(raw(server, f"/v1/sessions/{session}{path}", data, method)) == (400, "bad_request")
    assert error(raw(server, "/v1/sessions", data)) == (400, "bad_request")


def test_a_message_of_a_million_characters_is_one(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    text = "é" * 1_000_000
    tab = server.send(session, text).rest()
    assert (tab.end, tab.events[0]["message"] == text) == ("done", True)
    assert server.read(session)["items"][0]["text"] == text


@pytest.mark.parametrize("title", [5, [], {}, True, "x" * 201, "", "  "])
def test_a_wrong_title_is_a_bad_request(server: Server, title: Any) -> None:
    assert error(server.call("POST", "/v1/sessions", {"title": title})) == (400, "bad_request")
    session = server.session("kept")
    assert error(server.call("PATCH", f"/v1/sessions/{session}", {"title": title})) == (400, "bad_request")
    assert server.read(session)["session"]["title"] == "kept"


@pytest.mark.parametrize("archived", ["true", 1, 0, []])
def test_a_wrong_archived_mark_is_a_bad_request(server: Server, archived: Any) -> None:
    path = f"/v1/sessions/{server.session()}"
    assert error(server.call("PATCH", path, {"archived": archived})) == (400, "bad_request")
    assert error(server.call("PATCH", path, {})) == (400, "bad_request")


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "1.5", "", "1e2", "99999999999999999999"])
def test_a_limit_outside_its_bounds_is_a_bad_request(server: Server, limit: str) -> None:
    session = server.session()
    for path in ("/v1/sessions", f"/v1/sessions/{session}", f"/v1/sessions/{session}/events"):
        assert error(server.call("GET", f"{path}?limit={limit}")) == (400, "bad_request")
    assert server.call("GET", "/v1/sessions?limit=500").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "/v1/sessions?cursor=x",
        "/v1/sessions?cursor=%FF",
        "/v1/sessions?archived=maybe",
        "/v1/usage?group=moon",
        "/v1/usage?from=yesterday",
        "/v1/sessions/{s}?before=x",
        "/v1/sessions/{s}/events?after=x",
    ],
)
def test_a_wrong_query_is_a_bad_request(server: Server, query: str) -> None:
    assert error(server.call("GET", query.format(s=server.session()))) == (400, "bad_request")


@pytest.mark.parametrize(
    ("method", "route"),
    [
        ("PUT", "/v1/sessions"),
        ("DELETE", "/v1/sessions"),
        ("GET", "/v1/sessions/{id}/messages"),
        ("GET", "/v1/sessions/{id}/stop"),
        ("POST", "/v1/sessions/{id}/live"),
        ("POST", "/v1/models"),
        ("GET", "/v1/sign-in"),
        ("DELETE", "/health"),
    ],
)
def test_a_wrong_method_is_named(server: Server, method: str, route: str) -> None:
    answer = server.call(method, route.replace("{id}", server.session()))
    assert error(answer) == (405, "method_not_allowed")
    assert answer.headers["Allow"]


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/nothing", "/v1/sessions/", "/static/nothing"]
)
def test_a_route_that_is_none_is_not_found(server: Server, path: str) -> None:
    assert error(server.call("GET", path)) == (404, "not_found")


def test_an_unknown_model_is_named_with_the_known_ones(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    answer = server.send(session, "hi", "gpt-99")
    assert answer.status == 400
    body = answer.json()
    assert body["error"] == "unknown_model" and "fake" in body["message"]
    assert [row["kind"] for row in server.events(session)] == ["session_started"]
    assert server.send(session, "hi", "fake").rest().end == "done"


def test_a_body_that_says_it_is_too_large_is_refused_unread(server: Server) -> None:
    session = server.session()
    with socket.create_connection(address(server)) as client:
        client.settimeout(5)
        head = f"POST /v1/sessions/{session}/messages HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {server.token}\r\nContent-Length: 9000000\r\n\r\n"
        client.sendall(head.encode() + b'{"message": "')
        assert_too_large(client)


def test_a_body_that_is_too_large_without_saying_so_is_refused(server: Server) -> None:
    session = server.session()
    with socket.create_connection(address(server)) as client:
        client.settimeout(5)
        head = f"POST /v1/sessions/{session}/messages HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {server.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode())
        block = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(140):
                client.sendall(block)
            client.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # refused before it was all sent, and the answer was lost with the connection
        assert_too_large(client)
    assert [row["kind"] for row in server.events(session)] == ["session_started"]


def address(server: Server) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


def assert_too_large(client: socket.socket) -> None:
    answer = b""
    while b"too_large" not in answer and (data := client.recv(65536)):
        answer += data
    assert b" 413 " in answer.split(b"\r\n")[0] and b'"error":"too_large"' in answer


def test_a_chunked_body_within_the_limit_is_read(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    pieces = (piece for piece in (b'{"mess', b'age": "in pieces"}'))
    url = f"{server.url}/v1/sessions/{session}/messages"
    headers = {**server.headers(), "Prefer": "respond-async"}
    answer = requests.post(url, data=pieces, headers=headers, timeout=10)
    assert answer.status_code == 202
    assert server.idle(session)[0]["text"] == "in pieces"


def test_the_limit_of_a_body_is_a_setting(servers: Start, provider: FakeProvider) -> None:
    small = servers(TIMERS + "[server]\nmax_body_mb = 0.01\n" + entry(provider))
    session = small.session()
    assert error(raw(small, f"/v1/sessions/{session}/messages", b" " * 20_000)) == (413, "too_large")
    assert small.send(session, "x" * 5000).rest().end == "done"


def test_text_is_kept_honest(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    body = b'{"message": "pair \\ud83d\\ude00 lone \\ud83d nul \\u0000 end"}'
    answer = raw(server, f"/v1/sessions/{session}/messages", body, Prefer="respond-async")
    assert answer.status_code == 202
    assert server.idle(session)[0]["text"] == "pair \U0001f600 lone \ufffd nul \ufffd end"


def test_every_answer_carries_the_request_id(server: Server, provider: FakeProvider) -> None:
    named = server.call("GET", "/health", X_Request_Id="mine-1")
    assert named.headers["X-Request-Id"] == "mine-1"
    assert uuid.UUID(server.call("GET", f"/v1/sessions/{UNKNOWN}").headers["X-Request-Id"])
    session = server.session()
    tab = server.send(session, X_Request_Id="mine-2").rest()
    assert tab.headers["x-request-id"] == "mine-2"
    assert server.turn(session, tab.turn_id)["request_id"] == "mine-2"
    assert provider.requests("fake")[0].headers["X-Request-Id"] == "mine-2"


def test_a_garbled_request_line_does_not_hurt_the_next_one(server: Server) -> None:
    with socket.create_connection(address(server)) as client:
        client.sendall(b"\x16\x03\x01 not http\r\n\r\n")
        client.settimeout(5)
        client.recv(65536)
    assert server.call("GET", "/health").json()["status"] == "ok"
    stream = Stream(server.url, "GET", "/health", {})
    assert (stream.status, stream.json()["status"]) == (200, "ok")
