"""Tools at their edges: how many run at once, what an answer covers, what a shutdown leaves."""

from itertools import accumulate
from typing import Any

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import Start, entry
from tests.stories.server import Server
from tests.stories.wire import Stream

TIMERS = "[turn]\nceiling_s = 60\npermission_s = 30\n"
WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
# Waits until four have begun, so that four really are at work together.
GATHER = """
echo 1 >> running
for i in $(seq 200); do [ $(grep -c ^1 running) -ge 4 ] && break; sleep 0.02; done
echo -1 >> running
"""


def command(text: str) -> dict[str, Any]:
    return {"name": "run_command", "arguments": {"command": text}}


def asked(server: Server, provider: FakeProvider, session: str, text: str, decision: str) -> bool:
    """Whether the command asks in this session; if so, `decision` is the answer."""
    provider.behave("fake", Behaviour(tools=(command(text),), text="done"))
    tab = server.send(session)
    for frame in tab:
        if frame.type == "permission_request":
            server.call("POST", f"/v1/permissions/{frame.event['id']}", {"decision": decision})
    return "permission_request" in tab.kinds


def test_at_most_four_tools_of_a_step_run_at_once(server: Server, provider: FakeProvider) -> None:
    workspace = server.home / "workspace"
    (workspace / "gather.sh").write_text(GATHER)
    (workspace / "running").unlink(missing_ok=True)
    calls = tuple(command(f"sh gather.sh {number}") for number in range(6))
    provider.behave("fake", Behaviour(tools=calls, text="done"))
    tab = server.send(server.session()).rest()
    assert [event["status"] for event in tab.events if event["type"] == "tool_result"] == ["ok"] * 6
    steps = map(int, (workspace / "running").read_text().split())
    assert max(accumulate(steps)) == 4


def test_an_answer_for_the_session_covers_the_same_command_and_nothing_chained_to_it(
    servers: Start, provider: FakeProvider
) -> None:
    server = servers(TIMERS + entry(provider))
    session = server.session()
    assert asked(server, provider, session, "echo a", "session")
    assert not asked(server, provider, session, "echo b", "deny")
    for text in ("echo b; touch c", "echo b && ls", "echo $(touch c)", "echo b | cat", "echo b > c", "ls"):
        assert asked(server, provider, session, text, "deny"), text
    assert asked(server, provider, server.session(), "echo a", "deny"), "another session asks anew"
    assert not (server.home / "workspace" / "c").exists()


def test_a_shutdown_while_parked_cancels_the_request_and_says_that_the_tool_did_not_run(
    servers: Start, provider: FakeProvider
) -> None:
    provider.behave("fake", Behaviour(tools=(WRITE,), text="done"))
    server = servers(TIMERS + entry(provider))
    session = server.session()
    tab: Stream = server.send(session)
    request = tab.until("permission_request")
    assert server.terminate() == 0
    assert tab.rest().kinds[-4:] == ["permission_resolved", "tool_result", "error", "meta"]
    server.start()
    assert server.evidence(session, tab.turn_id)["payload"]["code"] == "server_shutdown"
    rows = {row["kind"]: row["payload"] for row in server.events(session)}
    assert rows["permission_resolved"] == {"id": request["id"], "decision": "cancelled"}
    assert (rows["tool_execution"]["status"], rows["tool_execution"]["duration_ms"]) == ("cancelled", None)
    late = server.call("POST", f"/v1/permissions/{request['id']}", {"decision": "once"})
    assert (late.status_code, late.json()["decision"]) == (409, "cancelled")
    assert not (server.home / "workspace" / "a.txt").exists()
