"""Sessions, permissions, health and the chain as JSON."""

import uuid

import peewee
import pytest

from tests.actors.play import call, eventually
from tests.web.conftest import told
from timothy.events import Done, TextDelta


def test_a_session_is_made_read_changed_and_deleted(client):
    made = client.post("/v1/sessions", json={"title": "Tea"})
    assert made.status_code == 201
    body = made.get_json()
    assert {"id", "title", "created_at"} <= set(body) and body["title"] == "Tea"
    path = f"/v1/sessions/{body['id']}"
    changed = client.patch(path, json={"title": "Coffee", "archived": True}).get_json()
    assert (changed["title"], changed["archived"], changed["turn_active"]) == ("Coffee", True, False)
    page = client.get(path).get_json()
    assert (page["items"], page["more"], page["turn_active"], page["turn"]) == ([], False, False, None)
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "nothing to change"),
        ({"title": ""}, "empty"),
        ({"title": "x" * 201}, "at most 200"),
        ({"archived": "yes"}, "true or false"),
        ({"tools_off": ["no such tool"]}, "no such tool"),
        ({"tools_off": [7]}, "7"),
    ],
)
def test_a_wrong_change_is_refused(client, body, words):
    answer = client.patch(f"/v1/sessions/{client.session()}", json=body)
    assert answer.status_code == 400 and words in answer.get_json()["message"]


def test_sessions_are_listed_in_pages_to_the_last(client):
    made = {client.session(title=f"T{number}") for number in range(7)}
    seen, cursor = [], ""
    while cursor is not None:
        page = client.get(f"/v1/sessions?limit=3&cursor={cursor}").get_json()
        seen += [row["id"] for row in page["sessions"]]
        cursor = page["next_cursor"]
    assert len(seen) == 7 and set(seen) == made


@pytest.mark.parametrize("query", ["cursor=x", "cursor=%ff", "cursor=YQ==", "limit=0", "archived=maybe"])
def test_a_wrong_query_is_a_bad_request(client, query):
    assert client.get(f"/v1/sessions?{query}").status_code == 400


def test_search_and_the_archive_choose(client):
    found = client.session(title="100% tea")
    other = client.session(title="1000 coffees")
    client.patch(f"/v1/sessions/{other}", json={"archived": True})
    ids = [row["id"] for row in client.get("/v1/sessions?query=100%25").get_json()["sessions"]]
    assert ids == [found]
    ids = [row["id"] for row in client.get("/v1/sessions?archived=true").get_json()["sessions"]]
    assert ids == [other]


def test_a_branch_says_where_it_is_from(house, client):
    house.plays([TextDelta("Hi"), Done("stop")])
    source = client.session(title="Source")
    told(client.send(source))
    made = client.post("/v1/sessions", json={"from": {"session_id": source, "seq": 3}}).get_json()
    assert made["title"] == "Source"
    assert made["origin"] == {"session_id": source, "seq": 3}
    assert [b["id"] for b in client.get(f"/v1/sessions/{source}").get_json()["session"]["branches"]] == [
        made["id"]
    ]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"seq": 0}, 400),
        ({"seq": 99}, 400),
        ({"seq": True}, 400),
        ({"seq": None}, 400),
        ({"seq": 10**30}, 400),
        ({"session_id": "x"}, 404),
        ({"session_id": str(uuid.uuid4())}, 404),
        ({"session_id": 7}, 400),
    ],
)
def test_a_branch_from_nothing_is_refused(client, change, status):
    origin = {"session_id": client.session(), "seq": 1, **change}
    assert client.post("/v1/sessions", json={"from": origin}).status_code == status


def test_raw_rows_are_read_after_a_seq(client):
    session_id = client.session(title="T")
    rows = client.get(f"/v1/sessions/{session_id}/events?after=1&limit=1").get_json()["events"]
    (row,) = rows
    assert set(row) == {"seq", "turn_id", "kind", "payload", "created_at"}
    assert (row["seq"], row["kind"], row["turn_id"]) == (2, "title_set", None)


def test_a_permission_is_listed_answered_once_and_then_resolved(house, client):
    house.plays(call("remember", text="six"), [TextDelta("Noted."), Done("stop")])
    session_id = client.session(title="Notes")
    client.send(session_id, headers={"Prefer": "respond-async"})
    (row,) = eventually(lambda: client.get("/v1/permissions/pending").get_json()["pending"])
    assert set(row) >= {"id", "tool", "input", "danger", "rationale", "requested_at", "expires_at", "turn_id"}
    assert (row["session_id"], row["session_title"], row["tool"]) == (session_id, "Notes", "remember")
    assert client.get(f"/v1/sessions/{session_id}").get_json()["turn"]["state"] == "waiting"
    path = f"/v1/permissions/{row['id']}"
    assert client.post(path, json={"decision": "maybe"}).status_code == 400
    assert client.post(path, json={"decision": "deny"}).get_json() == {"ok": True, "decision": "deny"}
    again = client.post(path, json={"decision": "once"})
    assert (again.status_code, again.get_json()["decision"]) == (409, "deny")
    eventually(lambda: not client.get(f"/v1/sessions/{session_id}").get_json()["turn_active"])
    late = client.post(path, json={"decision": "once"})
    assert (late.status_code, late.get_json()["error"]) == (409, "already_resolved")
    unknown = client.post(f"/v1/permissions/{uuid.uuid4()}", json={"decision": "once"})
    assert unknown.status_code == 404


def test_a_session_grant_is_listed_and_taken_back(house, client):
    house.plays(call("remember", text="six"), [TextDelta("Noted."), Done("stop")])
    client.send(client.session(), headers={"Prefer": "respond-async"})
    (row,) = eventually(lambda: client.get("/v1/permissions/pending").get_json()["pending"])
    client.post(f"/v1/permissions/{row['id']}", json={"decision": "session"})
    (grant,) = client.get("/v1/tools").get_json()["grants"]
    assert grant["tool"] == "remember"
    assert client.delete(f"/v1/grants/{grant['id']}").status_code == 204
    assert client.delete(f"/v1/grants/{grant['id']}").status_code == 404
    assert client.get("/v1/tools").get_json()["grants"] == []


def test_the_tools_say_what_they_may_do(client):
    tools = {tool["name"]: tool for tool in client.get("/v1/tools").get_json()["tools"]}
    assert tools["current_time"]["policy"] == "allow"
    assert tools["run_command"]["policy"] == "ask"
    assert all(tool["schema"]["type"] == "object" for tool in tools.values())


def test_health_is_degraded_and_says_why(house, client, monkeypatch):
    assert client.get("/health").get_json()["status"] == "ok"
    house.system.backlog.fault = "disk is full"
    answer = client.get("/health")
    assert answer.status_code == 200
    assert answer.get_json()["status"] == "degraded"
    assert "disk is full" in answer.get_json()["checks"]["storage"]
    assert "timothy_storage_failing 1\n" in client.get("/metrics").get_data(as_text=True)
    house.system.backlog.fault = None
    monkeypatch.setattr("web.health.LOW_DISK_BYTES", 1 << 80)
    assert "MB are free" in client.get("/health").get_json()["checks"]["disk"]


def test_health_and_metrics_answer_while_nothing_can_be_read(house, client, monkeypatch):
    def locked(*_, **__):
        raise peewee.OperationalError("database is locked")

    def gone(_):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(house.system, "read", locked)
    monkeypatch.setattr("web.health.shutil.disk_usage", gone)
    assert "cannot be looked at" in client.get("/health").get_json()["checks"]["disk"]
    answer = client.get("/metrics")
    text = answer.get_data(as_text=True)
    assert answer.status_code == 200
    assert "timothy_turns_running 0\n" in text and "timothy_turns_total" not in text


def test_metrics_are_lines_that_prometheus_reads(house, client):
    house.plays([TextDelta("Hi"), Done("stop")])
    told(client.send(client.session()))
    text = client.get("/metrics").get_data(as_text=True)
    assert 'timothy_turns_total{outcome="completed"} 1\n' in text
    for line in text.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or line.rsplit(" ", 1)[1].isdigit()


def test_the_chain_and_its_cost_are_told(house, client):
    assert client.get("/v1/models").get_json()["models"][0]["provider"] == "s"
    assert client.get("/v1/providers").get_json()["providers"][0]["name"] == "s"
    house.plays([TextDelta("Hi"), Done("stop")])
    told(client.send(client.session()))
    usage = client.get("/v1/usage?group=provider").get_json()
    assert [(row["key"], row["attempts"]) for row in usage["rows"]] == [("played", 1)]
    assert usage["total"]["cost"] is None
    assert client.get("/v1/usage?group=colour").status_code == 400
    assert client.get("/v1/usage?from=yesterday").status_code == 400


def test_tools_that_come_while_they_are_listed_break_nothing(client, house, monkeypatch):
    toolbox, read = house.system.toolbox, house.system.read

    def meanwhile(*arguments):
        toolbox.tools = {**toolbox.tools, "late": next(iter(toolbox.tools.values()))}
        return read(*arguments)

    monkeypatch.setattr(house.system, "read", meanwhile)
    answer = client.get("/v1/tools")
    assert answer.status_code == 200, answer.get_json()
