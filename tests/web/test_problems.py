"""Every error is JSON with a fitting status, and nothing is lost on the way."""

import uuid

import peewee
import pykka
import pytest

from timothy.errors import RequestError, TurnInFlight
from web import problems

NOBODY = str(uuid.uuid4())


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/sessions/", 404, "not_found"),
        ("GET", "//v1/sessions", 404, "not_found"),
        ("GET", "/v1/sessions/x", 404, "not_found"),
        ("GET", f"/v1/sessions/{NOBODY}", 404, "not_found"),
        ("PATCH", f"/v1/sessions/{NOBODY}", 400, "bad_request"),
        ("DELETE", f"/v1/sessions/{NOBODY}", 404, "not_found"),
        ("GET", f"/v1/sessions/{NOBODY}/events", 404, "not_found"),
        ("GET", f"/v1/sessions/{NOBODY}/live", 404, "not_found"),
        ("POST", f"/v1/sessions/{NOBODY}/stop", 404, "not_found"),
        ("POST", f"/v1/sessions/{NOBODY}/messages/retry", 404, "not_found"),
        ("POST", f"/v1/sessions/{NOBODY}/messages", 400, "bad_request"),
        ("GET", f"/v1/sessions/{NOBODY}/turns/{NOBODY}", 404, "not_found"),
        ("POST", f"/v1/permissions/{NOBODY}", 400, "bad_request"),
        ("DELETE", "/v1/grants/7", 404, "not_found"),
        ("DELETE", "/v1/grants/99999999999999999999999999", 404, "not_found"),
        ("DELETE", "/v1/sessions", 405, "method_not_allowed"),
        ("PUT", "/health", 405, "method_not_allowed"),
        ("GET", "/v1/attachments/../timothy.db", 404, "not_found"),
    ],
)
def test_what_cannot_be_had_is_told_in_one_shape(client, method, path, status, code):
    answer = client.open(path, method=method)
    assert answer.status_code == status
    body = answer.get_json()
    assert body["error"] == code and body["message"]
    if status == 405:
        assert answer.headers["Allow"]


def test_every_answer_has_the_callers_request_id_or_one_of_its_own(client):
    assert client.get("/health", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    for given in ("", "with space", "x" * 201):
        made = client.get("/nowhere", headers={"X-Request-Id": given}).headers["X-Request-Id"]
        assert uuid.UUID(made)


def test_a_body_over_the_limit_is_refused_unread(client):
    session_id = client.session()
    answer = client.send(session_id, "x" * 20_000)
    assert (answer.status_code, answer.get_json()["error"]) == (413, "too_large")
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (peewee.OperationalError("disk I/O error"), 503, "storage_unavailable"),
        (pykka.Timeout("slow"), 503, "storage_unavailable"),
        (pykka.ActorDeadError("gone"), 503, "server_shutdown"),
        (ZeroDivisionError("x"), 500, "internal_error"),
        (TurnInFlight("busy", turn_id="t"), 409, "turn_in_flight"),
    ],
)
def test_whoever_raised_it_an_error_is_told(client, house, monkeypatch, error, status, code):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(house.system, "read", broken)
    answer = client.get("/v1/sessions")
    assert (answer.status_code, answer.get_json()["error"]) == (status, code)
    if code == "turn_in_flight":
        assert answer.get_json()["turn_id"] == "t"


def test_every_request_error_has_a_status_of_the_callers_or_of_the_moment(client):
    for kind in RequestError.__subclasses__():
        with client.application.app_context():
            answer = problems.problem(kind("why"))
        assert 400 <= answer.status_code < 500 or answer.status_code == 503
        assert answer.get_json()["error"] == kind.code
