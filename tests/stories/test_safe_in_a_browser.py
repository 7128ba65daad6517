"""A web page elsewhere cannot use a person's server: token or cookie, this host, this origin."""

import re
import stat

import pytest
import requests

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server

GUARDED = [
    ("GET", "/v1/sessions"),
    ("POST", "/v1/sessions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/providers"),
    ("GET", "/v1/usage"),
    ("GET", "/v1/permissions/pending"),
    ("GET", "/metrics"),
    ("GET", "/v1/sessions/12345678-1234-4234-8234-123456789abc/live"),
    ("GET", "/v1/nothing"),
]


def code(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def sign_in(server: Server, **headers: str) -> requests.Response:
    url = f"{server.url}/v1/sign-in"
    return requests.post(url, json={"token": server.token}, headers=headers, timeout=10)


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_nothing_is_told_without_the_token(server: Server, method: str, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": server.token},
        {"Authorization": f"Basic {server.token}"},
        {"Authorization": f"Bearer {server.token}x"},
        {"Cookie": f"timothy={server.token}"},
        {"Cookie": "timothy="},
        {"Authorization": "Bearer "},
    ):
        answer = requests.request(method, server.url + path, headers=headers, timeout=10)
        assert code(answer) == (401, "unauthorized"), headers


def test_health_page_and_static_files_are_open(server: Server) -> None:
    assert requests.get(f"{server.url}/health", timeout=10).json()["status"] == "ok"
    page = requests.get(server.url, timeout=10)
    assert page.status_code == 200 and page.headers["Content-Type"].startswith("text/html")
    assert server.token not in page.text
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
        assert requests.get(server.url + path, timeout=10).status_code == 200


def test_the_sign_in_link_is_traded_for_a_cookie_that_is_not_the_token(server: Server) -> None:
    answer = sign_in(server)
    assert answer.status_code == 204
    cookie = answer.headers["Set-Cookie"]
    assert server.token not in cookie
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert "secure" not in attributes
    assert requests.get(f"{server.url}/v1/sessions", cookies=answer.cookies, timeout=10).status_code == 200
    assert sign_in(server).status_code == 204, "the link stays good for other browsers"


def test_behind_tls_the_cookie_is_for_tls_alone(server: Server) -> None:
    assert "Secure" in sign_in(server, **{"X-Forwarded-Proto": "https"}).headers["Set-Cookie"]


@pytest.mark.parametrize("token", ["", "wrong", 5, None, ["x"], {}])
def test_a_wrong_token_gives_no_cookie(server: Server, token: object) -> None:
    answer = requests.post(f"{server.url}/v1/sign-in", json={"token": token}, timeout=10)
    assert answer.status_code in (400, 401)
    assert "Set-Cookie" not in answer.headers


@pytest.fixture(scope="module")
def own(shared_servers: Start, provider: FakeProvider) -> Server:
    """A server with a token of the user's own, and a host besides the loopback ones."""
    config = TIMERS + '[server]\nhosts = ["my.home"]\n' + entry(provider)
    return shared_servers(config, TIMOTHY_API_TOKEN="my-own-token")


def test_a_cookie_survives_a_restart(own: Server) -> None:
    cookies = sign_in(own).cookies
    own.terminate()
    own.start()
    assert requests.get(f"{own.url}/v1/sessions", cookies=cookies, timeout=10).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8300", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"]
)
def test_another_host_is_refused_on_every_route(server: Server, host: str) -> None:
    for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/sessions"), ("GET", "/health"), ("GET", "/")):
        answer = server.call(method, path, Host=host)
        assert code(answer) == (403, "forbidden_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "127.8.8.8", "[::1]:8300"])
def test_loopback_hosts_are_served(server: Server, host: str) -> None:
    assert server.call("GET", "/v1/sessions", Host=host).status_code == 200


def test_a_configured_host_is_served(own: Server) -> None:
    assert own.call("GET", "/v1/sessions", Host="my.home").status_code == 200
    assert own.call("POST", "/v1/sessions", Host="my.home:80", Origin="http://my.home:80").status_code == 201
    assert code(own.call("GET", "/v1/sessions", Host="your.home")) == (403, "forbidden_host")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", ""]
)
def test_a_write_from_another_origin_is_refused(server: Server, origin: str) -> None:
    session = server.session()
    for method, path in (
        ("POST", "/v1/sessions"),
        ("POST", f"/v1/sessions/{session}/messages"),
        ("PATCH", f"/v1/sessions/{session}"),
        ("DELETE", f"/v1/sessions/{session}"),
        ("POST", f"/v1/sessions/{session}/stop"),
        ("POST", "/v1/sign-in"),
    ):
        assert code(server.call(method, path, {"message": "hi"}, Origin=origin)) == (403, "forbidden_origin")
    assert [row["kind"] for row in server.events(session)] == ["session_started"]


def test_a_write_from_the_own_page_is_served(server: Server) -> None:
    assert server.call("POST", "/v1/sessions", Origin=server.url).status_code == 201


def test_no_answer_invites_another_origin(server: Server) -> None:
    for method, path in (("GET", "/v1/sessions"), ("OPTIONS", "/v1/sessions"), ("GET", "/health")):
        answer = server.call(method, path, Origin="https://evil.example")
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_the_token_is_kept_for_its_owner_alone(server: Server) -> None:
    path = server.home / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() == server.token
    assert len(server.token) >= 32


def test_a_token_of_the_users_own_opens(own: Server) -> None:
    assert own.token == "my-own-token"
    assert own.call("GET", "/v1/sessions").status_code == 200
    assert not (own.home / "token").exists()


def test_the_server_listens_beyond_loopback_with_the_users_token_alone(servers: Start) -> None:
    server = servers("", running=False)
    assert "TIMOTHY_API_TOKEN" in server.refused("--host", "0.0.0.0")
