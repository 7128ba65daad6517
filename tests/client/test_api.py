"""Every call of the Python client says what the contract has it say, and refusals come by name."""

import pytest

from tests.client.contract_server import (
    OTHER_TURN,
    SESSION,
    TURN,
    Answer,
    ContractServer,
    Reset,
    as_json,
    frames,
    refused,
    streamed,
)
from tests.client.test_stream import MESSAGES, STARTED, WHOLE, ended, transcript
from timothy import errors
from timothy.client import Accepted, Client, LogRow, Session, StopAnswer
from timothy.errors import TimothyError

ROW = {"id": SESSION, "title": None, "created_at": "2030-01-02T03:04:05Z", "something": "new"}
PATH = f"/v1/sessions/{SESSION}"


def test_every_call_carries_the_token(
    client: Client,
    server: ContractServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.on("GET /health", as_json({"status": "ok", "checks": {"storage": "ok"}}))
    assert client.health().status == "ok"
    assert server.asked[0].headers["Authorization"] == "Bearer secret"


def test_sessions_are_made_renamed_archived_branched_and_deleted(
    client: Client, server: ContractServer
) -> None:
    server.on("POST /v1/sessions", as_json(ROW, 201), as_json(ROW, 201))
    server.on(f"PATCH {PATH}", as_json({**ROW, "title": "New"}), as_json({**ROW, "archived": True}))
    server.on(f"DELETE {PATH}", Answer(204))
    assert client.create_session() == Session(SESSION, None, ROW["created_at"] or "")
    assert client.branch(SESSION, 4).id == SESSION
    assert client.rename(SESSION, "New").title == "New"
    assert client.archive(SESSION).archived
    client.delete_session(SESSION)
    assert [asked.body for asked in server.asked] == [
        {},
        {"from": {"session_id": SESSION, "seq": 4}},
        {"title": "New"},
        {"archived": True},
        None,
    ]


def test_the_list_of_sessions_is_read_page_by_page(client: Client, server: ContractServer) -> None:
    server.on(
        "GET /v1/sessions",
        as_json({"sessions": [ROW, ROW], "next_cursor": "c2"}),
        as_json({"sessions": [ROW], "next_cursor": None}),
    )
    assert [session.id for session in client.sessions("tea")] == [SESSION] * 3
    assert [asked.query for asked in server.asked] == [{"query": "tea"}, {"query": "tea", "cursor": "c2"}]


def test_the_log_is_read_page_by_page(client: Client, server: ContractServer) -> None:
    def page(*numbers: int) -> Answer:
        rows = [
            {"seq": n, "turn_id": TURN, "kind": "failover", "payload": {}, "created_at": ""} for n in numbers
        ]
        return as_json({"events": rows})

    server.on(f"GET {PATH}/events", page(*range(3, 503)), page(503))
    rows = list(client.events(SESSION, after=2))
    assert rows[-1] == LogRow(503, TURN, "failover", {}, "")
    assert [row.seq for row in rows] == list(range(3, 504))
    assert [asked.query for asked in server.asked] == [
        {"after": "2", "limit": "500"},
        {"after": "502", "limit": "500"},
    ]


def test_a_transcript_is_one_page_with_its_turn(client: Client, server: ContractServer) -> None:
    server.on(f"GET {PATH}", transcript(kind="assistant", text="Hi."))
    page = client.session(SESSION, before=9, limit=2)
    assert [item["kind"] for item in page.items] == ["user", "assistant"]
    assert server.asked[0].query == {"before": "9", "limit": "2"}


def test_a_send_whose_answer_was_lost_is_repeated_with_its_key(
    client: Client, server: ContractServer
) -> None:
    server.on(MESSAGES, Reset(), Reset(), streamed(*frames(*WHOLE), Idempotent_Replayed="true"))
    turn = client.send(SESSION, "Hello?", model="tiny")
    assert turn.replayed
    assert list(turn) == WHOLE
    keys = {asked.headers["Idempotency-Key"] for asked in server.asked}
    assert len(server.asked) == 3
    assert len(keys) == 1
    assert {str(asked.body) for asked in server.asked} == {str({"message": "Hello?", "model": "tiny"})}


def test_two_sends_have_two_keys_and_a_given_key_is_kept(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, *[streamed(*frames(*WHOLE))] * 3)
    for key in (None, None, "mine"):
        client.send(SESSION, "Hello?", key=key).wait()
    first, second, third = (asked.headers["Idempotency-Key"] for asked in server.asked)
    assert len({first, second, third}) == 3
    assert third == "mine"


def test_a_refused_send_is_not_repeated(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, refused(409, "turn_in_flight", "a turn runs", turn_id=OTHER_TURN))
    with pytest.raises(errors.TurnInFlight, match="a turn runs") as caught:
        client.send(SESSION, "Hello?")
    assert caught.value.details == {"turn_id": OTHER_TURN}
    assert len(server.asked) == 1


def test_a_submitted_message_has_no_stream(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, Reset(), as_json({"session_id": SESSION, "turn_id": TURN}, 202))
    assert client.submit(SESSION, "Hello?") == Accepted(SESSION, TURN)
    assert {asked.headers["Prefer"] for asked in server.asked} == {"respond-async"}


def test_a_retry_says_its_mode(client: Client, server: ContractServer) -> None:
    server.on(f"POST {PATH}/messages/retry", streamed(*frames(*WHOLE)))
    assert list(client.retry(SESSION, "continue")) == WHOLE
    assert server.asked[0].body == {"mode": "continue"}


def test_a_turn_is_told_with_its_attempts(client: Client, server: ContractServer) -> None:
    server.on(f"GET {PATH}/turns/{TURN}", ended("failed", "overloaded", "no room"))
    turn = client.turn(SESSION, TURN)
    assert (turn.outcome, turn.code, turn.message, turn.attempts) == ("failed", "overloaded", "no room", [])


def test_a_stop_tells_the_outcome_or_that_it_takes_long(client: Client, server: ContractServer) -> None:
    server.on(
        f"POST {PATH}/stop",
        as_json({"turn_id": TURN, "outcome": "stopped"}),
        as_json({"turn_id": TURN, "state": "stopping"}, 202),
    )
    assert client.stop(SESSION) == StopAnswer(TURN, "stopped", None)
    assert client.stop(SESSION, TURN) == StopAnswer(TURN, None, "stopping")
    assert [asked.body for asked in server.asked] == [{}, {"turn_id": TURN}]


def test_permissions_are_listed_and_answered(client: Client, server: ContractServer) -> None:
    request = {
        "id": "p1",
        "session_id": SESSION,
        "session_title": None,
        "turn_id": TURN,
        "tool": "write_file",
        "input": {"path": "a"},
        "danger": "write",
        "rationale": "",
        "requested_at": STARTED.started_at,
        "expires_at": STARTED.started_at,
    }
    server.on("GET /v1/permissions/pending", as_json({"pending": [request]}))
    server.on(
        "POST /v1/permissions/p1",
        as_json({"ok": True, "decision": "once"}),
        refused(409, "already_resolved", decision="once"),
    )
    assert [permission.input for permission in client.pending()] == [{"path": "a"}]
    client.answer("p1", "once")
    with pytest.raises(errors.AlreadyResolved) as caught:
        client.answer("p1", "deny")
    assert caught.value.details == {"decision": "once"}


def test_models_and_providers_are_listed(client: Client, server: ContractServer) -> None:
    provider = {"name": "home", "driver": "openai", "model": "tiny", "healthy": True}
    server.on("GET /v1/models", as_json({"models": [{"id": "tiny", "provider": "home", "driver": "openai"}]}))
    server.on(
        "GET /v1/providers",
        as_json({"providers": [{**provider, "cooling_until": None, "last_error": None}]}),
    )
    assert [row.id for row in client.models()] == ["tiny"]
    assert client.providers()[0].healthy


def test_usage_is_asked_for_by_group_and_time(client: Client, server: ContractServer) -> None:
    row = {"key": "tiny", "attempts": 2, "cost": None, "unpriced_attempts": 2}
    server.on("GET /v1/usage", as_json({"group": "model", "rows": [row], "total": row}))
    assert client.usage("model", since="2030-01-01T00:00:00Z").rows == [row]
    assert server.asked[0].query == {"group": "model", "from": "2030-01-01T00:00:00Z"}


def _request_errors() -> list[type[TimothyError]]:
    return [*errors.RequestError.__subclasses__()]


@pytest.mark.parametrize("kind", _request_errors(), ids=lambda kind: kind.__name__)
def test_every_refusal_is_raised_by_its_name(
    client: Client, server: ContractServer, kind: type[TimothyError]
) -> None:
    server.on(f"PATCH {PATH}", refused(kind.status, kind.code, "because"))
    with pytest.raises(kind, match="because"):
        client.rename(SESSION, "x")


def test_a_refusal_of_a_newer_server_keeps_its_code(client: Client, server: ContractServer) -> None:
    server.on(f"PATCH {PATH}", refused(418, "teapot", "short and stout"))
    with pytest.raises(TimothyError, match="teapot: short and stout"):
        client.rename(SESSION, "x")


@pytest.mark.parametrize("status", [200, 404, 302])
def test_an_answer_that_is_not_of_this_kind_of_server_is_said_so(
    client: Client, server: ContractServer, status: int
) -> None:
    server.on("GET /health", Answer(status, {"Location": "/login"}, (b"<html>a router</html>",)))
    with pytest.raises(TimothyError, match="Timothy"):
        client.health()


def test_a_server_that_is_away_is_tried_five_times(client: Client, server: ContractServer) -> None:
    server.on("GET /health", *[Reset()] * 4, as_json({"status": "degraded"}), *[Reset()] * 5)
    assert client.health().status == "degraded"
    with pytest.raises(errors.ServerUnreachable, match=server.url):
        client.health()


def test_what_is_not_safe_to_repeat_is_tried_once(client: Client, server: ContractServer) -> None:
    server.on("POST /v1/sessions", Reset())
    with pytest.raises(errors.ServerUnreachable):
        client.create_session()
    assert len(server.asked) == 1


def test_an_address_without_its_scheme_is_refused_at_once() -> None:
    with pytest.raises(errors.BadRequest, match="http://"):
        Client("localhost:8300", "secret")
