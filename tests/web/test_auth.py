"""Who may come in."""

import pytest

from tests.web.conftest import TOKEN

ANYBODY = {"Authorization": None}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions",
        "/v1/models",
        "/v1/usage",
        "/v1/permissions/pending",
        "/metrics",
        "/v1/doctor",
        "/nowhere",
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        ANYBODY,
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": None, "Cookie": f"timothy={TOKEN}"},
        {"Authorization": None, "Cookie": "timothy="},
    ],
    ids=["none", "empty", "wrong", "basic", "longer", "token as cookie", "empty cookie"],
)
def test_nothing_is_told_to_whoever_has_no_token(client, path, headers):
    answer = client.get(path, headers=headers)
    assert (answer.status_code, answer.get_json()["error"]) == (401, "unauthorized")


@pytest.mark.parametrize("path", ["/health", "/", "/static/app.js"])
def test_some_things_are_for_everybody(client, path):
    with client.get(path, headers=ANYBODY) as answer:
        assert answer.status_code == 200


def test_what_is_open_to_read_is_not_open_to_write(client):
    assert client.post("/health", headers=ANYBODY).status_code == 401
    assert client.delete("/static/app.js", headers=ANYBODY).status_code == 401


def test_the_token_is_traded_for_a_cookie_that_is_not_it(client):
    answer = client.post("/v1/sign-in", json={"token": TOKEN}, headers=ANYBODY)
    assert answer.status_code == 204
    cookie = answer.headers["Set-Cookie"]
    assert TOKEN not in cookie
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert "Secure" not in cookie
    assert client.get("/v1/sessions", headers=ANYBODY).status_code == 200  # the client kept the cookie


def test_the_cookie_is_for_tls_alone_where_there_is_tls(client):
    answer = client.post("/v1/sign-in", json={"token": TOKEN}, base_url="https://localhost")
    assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("body", [{"token": "wrong"}, {"token": "the-tokeä"}])
def test_a_wrong_token_gets_no_cookie(client, body):
    answer = client.post("/v1/sign-in", json=body, headers=ANYBODY)
    assert answer.status_code == 401 and "Set-Cookie" not in answer.headers


def test_a_sign_in_without_a_token_is_a_bad_request(client):
    assert client.post("/v1/sign-in", json={}, headers=ANYBODY).status_code == 400


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8300", 200),
        ("127.0.0.1:1", 200),
        ("127.9.9.9", 200),
        ("[::1]:8300", 200),
        ("timothy.example", 200),
        ("TIMOTHY.example:80", 200),
        ("evil.example", 403),
        ("timothy.example.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("", 403),
        ("[::1", 403),
        ("localhost@evil.example", 403),
        ("evil.example@localhost", 403),
        ("localhost/evil.example", 403),
        ("[::1]evil.example", 403),
        ("localhost:evil", 403),
    ],
)
def test_only_a_known_host_is_answered_to(client, host, status):
    answer = client.get("/v1/sessions", headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert answer.get_json()["error"] == "forbidden_host"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 201),
        ("http://localhost", 201),
        ("https://LOCALHOST", 201),
        ("http://localhost:9", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("http://[::1", 403),
        ("http://localhost.evil.example", 403),
    ],
)
def test_a_write_from_another_origin_is_refused(client, origin, status):
    answer = client.post("/v1/sessions", headers={"Origin": origin})
    assert answer.status_code == status
    if status == 403:
        assert answer.get_json()["error"] == "forbidden_origin"


@pytest.mark.parametrize("host", ["[::1]:8300", "127.0.0.1:8300", "timothy.example"])
def test_a_write_from_the_own_page_is_served_by_whatever_name_it_was_called(client, host):
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert client.post("/v1/sessions", headers=headers).status_code == 201


def test_reading_from_elsewhere_is_left_to_the_browser_which_gets_no_leave(client):
    answer = client.get("/v1/sessions", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers.keys() if name.lower().startswith("access-control")]  # noqa: SIM118
