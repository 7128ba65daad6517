"""One connection for many requests: a refusal or a stream on it does no harm to the next one."""

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import TIMERS, entry
from tests.stories.server import Server

UNKNOWN = "00000000-0000-4000-8000-000000000000"
pytestmark = pytest.mark.once  # the server of plain threads closes a connection after each answer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, provider: FakeProvider) -> Iterator[Server]:
    """A server under gevent, as `timothy serve` is."""
    server = Server("gevent", tmp_path_factory.mktemp("connection"), TIMERS + entry(provider))
    yield server.start()
    server.terminate()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/sessions", "{", 400),
        ("GET", "/v1/sessions/none", None, 404),
        ("POST", f"/v1/sessions/{UNKNOWN}/messages", '{"message": "hi"}', 404),
        ("PUT", "/v1/sessions", "{}", 405),
        ("POST", f"/v1/sessions/{UNKNOWN}/stop", None, 404),
        ("POST", "/v1/nowhere", '{"a": 1}', 404),
        ("HEAD", "/v1/sessions", None, 200),
        ("POST", "/v1/sessions/SESSION/messages", '{"message": "hi"}', 200),
    ],
)
def test_a_connection_goes_on_after_any_answer(
    served: Server, method: str, path: str, body: str | None, status: int
) -> None:
    address = urlsplit(served.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.connect()
    own = connection.sock
    connection.request(method, path.replace("SESSION", served.session()), body, served.headers())
    answer = connection.getresponse()
    answer.read()
    assert answer.status == status
    connection.request("GET", "/v1/models", headers=served.headers())
    assert connection.getresponse().status == 200
    assert connection.sock is own
    connection.close()


def test_requests_that_do_not_wait_for_answers_are_answered_in_order(served: Server) -> None:
    address = urlsplit(served.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.connect()
    lines = f"Host: {address.netloc}\r\nAuthorization: Bearer {served.token}\r\n"
    paths = ("/v1/models", "/v1/sessions/none", "/v1/sessions?limit=0")
    connection.sock.sendall(b"".join(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode() for path in paths))
    connection.sock.sendall(f"GET /health HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
    answers = b"".join(iter(lambda: connection.sock.recv(1 << 16), b""))
    statuses = [int(answer[:3]) for answer in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 404, 400, 200]
    connection.close()
