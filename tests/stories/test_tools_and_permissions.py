"""Tools run when they may, wait for a person when they must, and never run unasked, twice or unheard of."""

import threading
from typing import Any

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server, eventually
from tests.stories.wire import Stream

SUM = {"name": "calculate", "arguments": {"expression": "6*7"}}


def write(path: str = "note.txt", content: str = "written") -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "content": content}}


def told(provider: FakeProvider, number: int) -> list[dict[str, Any]]:
    """What the `number`-th request told the model of its tools' results."""
    return [m for m in provider.requests("fake")[number].body["messages"] if m["role"] == "tool"]


def executions(server: Server, session: str) -> list[dict[str, Any]]:
    return [row["payload"] for row in server.events(session) if row["kind"] == "tool_execution"]


def answer(server: Server, request: dict[str, Any], decision: str) -> tuple[int, Any]:
    reply = server.call("POST", f"/v1/permissions/{request['id']}", {"decision": decision})
    return reply.status_code, reply.json()


def ask(server: Server, provider: FakeProvider, *calls: dict[str, Any]) -> tuple[str, Stream, dict[str, Any]]:
    """A turn that is parked: its session, its stream and its request."""
    provider.behave("fake", tools=calls or (write(),), text="the tool said {tool}")
    session = server.session("asking")
    tab = server.send(session)
    return session, tab, tab.until("permission_request")


def test_an_allowed_tool_runs_and_its_result_reaches_the_model(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", tools=(SUM,), text="it is {tool}")
    session = server.session()
    tab = server.send(session).rest()
    assert (tab.end, tab.text[:8]) == ("done", "it is 42")
    kinds = [kind for kind in tab.kinds if kind.startswith("tool")]
    assert kinds == ["tool_call_started", "tool_call", "tool_result"]
    call = next(event for event in tab.events if event["type"] == "tool_call")
    assert (call["name"], call["input"]) == ("calculate", {"expression": "6*7"})
    result = next(event for event in tab.events if event["type"] == "tool_result")
    assert (result["call_id"], result["status"], result["truncated"]) == (call["call_id"], "ok", False)
    assert [(row["name"], row["status"]) for row in executions(server, session)] == [("calculate", "ok")]
    assert [item["kind"] for item in server.read(session)["items"]] == ["user", "tool", "assistant"]


def test_several_tools_of_one_answer_all_run(server: Server, provider: FakeProvider) -> None:
    calls = tuple({"name": "calculate", "arguments": {"expression": f"{n}*{n}"}} for n in range(6))
    provider.behave("fake", tools=calls, text="done")
    session = server.session()
    assert server.send(session).rest().end == "done"
    assert [result["content"].split()[0] for result in told(provider, 1)] == ["0", "1", "4", "9", "16", "25"]


def test_a_tool_that_writes_waits_for_a_person(server: Server, provider: FakeProvider) -> None:
    session, tab, request = ask(server, provider, write("once.txt"))
    assert (request["tool"], request["danger"], request["input"]["path"]) == (
        "write_file",
        "write",
        "once.txt",
    )
    assert request["rationale"] and request["expires_at"]
    seen = server.read(session)
    assert (seen["turn_active"], seen["turn"]["state"]) == (True, "waiting")
    assert [item["kind"] for item in seen["items"]] == ["user", "permission"]
    row = next(row for row in server.get("/v1/permissions/pending")["pending"] if row["id"] == request["id"])
    assert (row["session_id"], row["session_title"], row["turn_id"]) == (session, "asking", tab.turn_id)
    assert not (server.home / "workspace" / "once.txt").exists()
    assert answer(server, request, "once") == (200, {"ok": True, "decision": "once"})
    tab.until("permission_resolved", id=request["id"], decision="once")
    assert tab.rest().end == "done"
    assert (server.home / "workspace" / "once.txt").read_text() == "written"
    assert [item["kind"] for item in server.read(session)["items"]] == ["user", "tool", "assistant"]
    assert request["id"] not in str(server.get("/v1/permissions/pending"))


def test_once_is_once_and_session_is_for_the_session(server: Server, provider: FakeProvider) -> None:
    session, tab, request = ask(server, provider, write("folder/a.txt"))
    assert answer(server, request, "once")[0] == 200
    assert tab.rest().end == "done"
    for decision in ("session", None):
        provider.behave("fake", tools=(write("folder/b.txt"),), text="ok")
        tab = server.send(session)
        if decision is None:
            assert "permission_request" not in tab.rest().kinds
        else:
            assert answer(server, tab.until("permission_request"), decision)[0] == 200
        assert tab.rest().end == "done" if decision else tab.end == "done"
    other = server.send(server.session())
    assert other.until("permission_request")["tool"] == "write_file"
    other.close()


def test_a_denied_tool_does_not_run_and_the_model_hears_so(server: Server, provider: FakeProvider) -> None:
    session, tab, request = ask(server, provider, write("denied.txt"))
    assert answer(server, request, "deny") == (200, {"ok": True, "decision": "deny"})
    assert tab.rest().end == "done"
    assert not (server.home / "workspace" / "denied.txt").exists()
    assert [row["status"] for row in executions(server, session)] == ["denied"]
    assert "said no" in told(provider, 1)[0]["content"]


def test_nobody_answering_is_no_denial(impatient: Server, provider: FakeProvider) -> None:
    session, tab, request = ask(impatient, provider, write("late.txt"))
    tab.until("permission_resolved", id=request["id"], decision="timeout")
    assert tab.rest().end == "done"
    assert not (impatient.home / "workspace" / "late.txt").exists()
    assert "not refused" in told(provider, 1)[0]["content"]
    status, body = answer(impatient, request, "once")
    assert (status, body["error"], body["decision"]) == (409, "already_resolved", "timeout")
    assert [row["status"] for row in executions(impatient, session)] == ["cancelled"]


def test_the_first_of_two_tabs_decides(server: Server, provider: FakeProvider) -> None:
    for _ in range(10):
        _, tab, request = ask(server, provider, write("race.txt"))
        replies: list[tuple[int, Any]] = []
        barrier = threading.Barrier(2)

        def click(
            decision: str,
            request: dict[str, Any] = request,
            replies: list[tuple[int, Any]] = replies,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait()
            replies.append(answer(server, request, decision))

        clicks = [threading.Thread(target=click, args=(decision,)) for decision in ("once", "deny")]
        for thread in clicks:
            thread.start()
        for thread in clicks:
            thread.join()
        (won, first), (lost, second) = sorted(replies, key=lambda reply: reply[0])
        assert (won, lost) == (200, 409)
        assert (second["error"], second["decision"]) == ("already_resolved", first["decision"])
        resolved = tab.until("permission_resolved")
        assert resolved["decision"] == first["decision"]
        assert tab.rest().end == "done"
        assert answer(server, request, "session")[1]["decision"] == first["decision"]


def test_a_stop_while_parked_cancels_the_request(server: Server, provider: FakeProvider) -> None:
    session, tab, request = ask(server, provider, write("stopped.txt"))
    assert server.stop(session).json()["outcome"] == "stopped"
    assert tab.rest().end == "stopped"
    assert [e["decision"] for e in tab.events if e["type"] == "permission_resolved"] == ["cancelled"]
    status, body = answer(server, request, "once")
    assert (status, body["error"], body["decision"]) == (409, "already_resolved", "cancelled")
    assert not (server.home / "workspace" / "stopped.txt").exists()
    assert server.evidence(session, tab.turn_id)["kind"] == "turn_failed"


def test_a_viewer_that_comes_while_parked_sees_the_open_request(
    server: Server, provider: FakeProvider
) -> None:
    session, tab, request = ask(server, provider)
    later = server.live(session)
    assert later.until("permission_request") == request
    assert answer(server, request, "deny")[0] == 200
    assert [frame.raw for frame in later.rest().frames] == [frame.raw for frame in tab.rest().frames]


@pytest.mark.parametrize("decision", ["yes", "", 5, None, "timeout", "cancelled"])
def test_a_decision_that_is_none_is_named(server: Server, provider: FakeProvider, decision: Any) -> None:
    session, _, request = ask(server, provider)
    status, body = answer(server, request, decision)
    assert (status, body["error"]) == (400, "bad_request")
    assert server.read(session)["turn"]["state"] == "waiting"
    assert server.stop(session).status_code == 200


WRONG = {
    "an unknown tool": ({"name": "fly", "arguments": {}}, "fly"),
    "arguments that are no JSON": ({"name": "calculate", "arguments": "{6*7"}, "JSON"),
    "arguments that break the schema": ({"name": "calculate", "arguments": {"sum": "6*7"}}, "expression"),
    "arguments of a wrong type": ({"name": "calculate", "arguments": {"expression": 42}}, "string"),
    "a tool that fails": ({"name": "calculate", "arguments": {"expression": "1/0"}}, "zero"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_told_to_the_model(server: Server, provider: FakeProvider, name: str) -> None:
    call, words = WRONG[name]
    provider.behave("fake", tools=(call,), text="I see")
    session = server.session()
    tab = server.send(session).rest()
    assert (tab.end, tab.text) == ("done", "I see")
    assert [row["status"] for row in executions(server, session)] == ["error"]
    assert words in told(provider, 1)[0]["content"]


@pytest.mark.parametrize(("message", "requests"), [("loop", 4), ("go on", 16)])
def test_a_model_that_only_calls_tools_is_made_to_answer(
    scripted: Server, message: str, requests: int
) -> None:
    """After three same calls in a row, or fifteen calls, no tools are offered; then that is the end."""
    session = scripted.session()
    tab = scripted.send(session, message).rest()
    assert tab.kinds[-3:] == ["incomplete", "done", "meta"]
    assert tab.events[-3]["reason"] == "max_steps"
    assert (tab.meta["outcome"], tab.end) == ("incomplete", "done")
    assert len(scripted.turn(session, tab.turn_id)["attempts"]) == requests
    ended = [row["status"] for row in executions(scripted, session)]
    assert ended == ["ok"] * (requests - 1) + ["cancelled"], "the last call was not offered, and is not run"


def test_a_long_result_is_shown_as_a_preview_and_kept_whole(server: Server, provider: FakeProvider) -> None:
    text = "line\n" * 20_000
    (server.home / "workspace").mkdir(exist_ok=True)
    (server.home / "workspace" / "long.txt").write_text(text)
    provider.behave("fake", tools=({"name": "read_file", "arguments": {"path": "long.txt"}},), text="read")
    session = server.session()
    tab = server.send(session).rest()
    result = next(event for event in tab.events if event["type"] == "tool_result")
    assert result["truncated"] is True
    assert len(result["preview"]) < len(executions(server, session)[0]["result"])


def test_a_stop_in_a_running_tool_ends_it_and_says_it_may_have_run(
    server: Server, provider: FakeProvider
) -> None:
    call = {"name": "run_command", "arguments": {"command": "touch began; sleep 30"}}
    provider.behave("fake", tools=(call,))
    session = server.session()
    tab = server.send(session)
    tab.until("tool_call")
    eventually(lambda: (server.home / "workspace" / "began").exists())
    assert server.stop(session).json()["outcome"] == "stopped"
    assert tab.rest().end == "stopped"
    assert [(row["status"], row["result"]) for row in executions(server, session)] == [
        ("cancelled", "interrupted, may have run")
    ]
