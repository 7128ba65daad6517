"""What the page's settings show and change: tools, grants, notes, providers, findings, exports."""

import json

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.server import Server

WRITE = {"name": "write_file", "arguments": {"path": "notes/a.txt", "content": "x"}}


def test_a_tool_that_a_session_switched_off_is_neither_offered_nor_run(
    server: Server, provider: FakeProvider
) -> None:
    session = server.session()
    changed = server.call("PATCH", f"/v1/sessions/{session}", {"tools_off": ["calculate"]})
    assert (changed.status_code, changed.json()["tools_off"]) == (200, ["calculate"])
    call = {"name": "calculate", "arguments": {"expression": "1+1"}}
    provider.behave("fake", Behaviour(tools=(call,), text="so be it"))
    turn = server.send(session, "sum").rest()
    offered = [tool["function"]["name"] for tool in provider.requests("fake")[0].body["tools"]]
    assert "calculate" not in offered and "current_time" in offered
    assert [e["status"] for e in turn.events if e["type"] == "tool_result"] == ["error"]


def test_an_unknown_tool_cannot_be_switched_off(server: Server) -> None:
    answer = server.call("PATCH", f"/v1/sessions/{server.session()}", {"tools_off": ["teleport"]})
    assert answer.status_code == 400 and "calculate" in answer.json()["message"]


def test_a_revoked_grant_asks_again(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tools=(WRITE,), text="written"))
    session = server.session()
    tab = server.send(session, "write")
    request = tab.until("permission_request")
    server.call("POST", f"/v1/permissions/{request['id']}", {"decision": "session"})
    assert tab.rest().end == "done"
    (grant,) = [g for g in server.get("/v1/tools")["grants"] if g["session_id"] == session]
    assert grant["tool"] == "write_file"
    assert "permission_request" not in [e["type"] for e in server.send(session, "write").rest().events]
    assert server.call("DELETE", f"/v1/grants/{grant['id']}").status_code == 204
    assert server.call("DELETE", f"/v1/grants/{grant['id']}").status_code == 404
    tab = server.send(session, "write")
    assert tab.until("permission_request")["tool"] == "write_file"
    server.stop(session)


def test_notes_can_be_read_changed_and_forgotten(server: Server) -> None:
    note = server.call("POST", "/v1/memory", {"text": "likes plums"})
    assert note.status_code == 201
    path = f"/v1/memory/{note.json()['id']}"
    assert server.call("PATCH", path, {"text": "likes pears"}).json()["text"] == "likes pears"
    assert "likes pears" in [entry["text"] for entry in server.get("/v1/memory")["notes"]]
    assert server.call("DELETE", path).status_code == 204
    assert [server.call(method, path, {"text": "x"}).status_code for method in ("DELETE", "PATCH")] == [
        404,
        404,
    ]
    assert server.call("POST", "/v1/memory", {"text": "x" * 2001}).status_code == 400


def test_a_provider_can_be_asked_for_a_word(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(text="blue"))
    good = server.call("POST", "/v1/providers/test", {"name": "fake"}).json()
    assert (good["ok"], good["text"]) == (True, "blue")
    provider.behave("fake", "unauthorized")
    bad = server.call("POST", "/v1/providers/test", {"name": "fake"}).json()
    assert (bad["ok"], bad["code"]) == (False, "auth_failed")
    assert server.call("POST", "/v1/providers/test", {"name": "nobody"}).status_code == 400


def test_the_doctor_looks_at_a_running_server(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(hold="end"))
    session = server.session()
    server.send(session, "hi").until("text_delta")
    found = server.get("/v1/doctor")
    assert found["healthy"] is True
    assert "unfinished" in [finding["check"] for finding in found["findings"]]
    server.stop(session)


def test_a_session_is_exported_in_both_forms(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(text="the answer"))
    session = server.session("words")
    server.send(session, "question").rest()
    words = server.call("GET", f"/v1/sessions/{session}/export")
    assert words.headers["Content-Type"].startswith("text/markdown") and "the answer" in words.text
    assert "attachment" in words.headers["Content-Disposition"]
    rows = server.call("GET", f"/v1/sessions/{session}/export?format=jsonl").text.splitlines()
    assert [json.loads(row).get("kind") for row in rows][-1] in ("assistant_turn", "title_set")
    assert server.call("GET", f"/v1/sessions/{session}/export?format=pdf").status_code == 400
