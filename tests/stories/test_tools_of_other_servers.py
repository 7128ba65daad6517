"""Tools of MCP servers: asked for like others, and what is bad about a server stays with its own calls."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import ROOT, Server, eventually
from tests.stories.test_tools_and_permissions import answer, executions, told

PATTERN = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
PLANS: dict[str, dict[str, Any]] = {
    "bad": {
        "noise": 2,
        "tools": [
            {"name": "check", "description": "Runs away", "inputSchema": PATTERN},
            {"name": "say", "description": "Says it", "inputSchema": {"type": "object"}},
        ],
    },
    "hanging": {
        "hang": "tools/call",
        "tools": [{"name": "wait", "description": "Waits", "inputSchema": {"type": "object"}}],
    },
}


@pytest.fixture
def house(servers: Start, provider: FakeProvider, tmp_path: Path) -> Server:
    """A server whose MCP servers run."""
    tables = ""
    for name, plan in PLANS.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(plan))
        argv = json.dumps([str(ROOT / "tests/tools/mcp_server.py"), str(file)])
        tables += f'\n[[mcp]]\nname = "{name}"\ncommand = "{sys.executable}"\nargs = {argv}\n'
    server = servers(TIMERS + entry(provider) + tables)
    eventually(lambda: {"bad.say", "hanging.wait"} <= {tool["name"] for tool in tools(server)}, 40)
    return server


def tools(server: Server) -> list[dict[str, Any]]:
    return list(server.get("/v1/tools")["tools"])


def wire_name(provider: FakeProvider, server: Server, name: str) -> str:
    """What the model is told that the tool is called."""
    provider.behave("fake", text="hello")
    server.send(server.session()).rest()
    offered = [tool["function"]["name"] for tool in provider.requests("fake")[-1].body["tools"]]
    [found] = [one for one in offered if one.startswith(name.replace(".", "__"))]
    return str(found)


def behave(provider: FakeProvider, house: Server, tool: str, **arguments: Any) -> None:
    """From now on the model calls `tool`, then says what that said."""
    call = {"name": wire_name(provider, house, tool), "arguments": arguments}
    provider.behave("fake", tools=(call,), text="it said {tool}")


def test_what_is_bad_about_a_server_costs_its_own_calls_only(house: Server, provider: FakeProvider) -> None:
    assert {tool["policy"] for tool in tools(house) if "." in tool["name"]} == {"ask"}
    behave(provider, house, "bad.check", text="a" * 60 + "!")
    session = house.session()
    tab = house.send(session)
    tab.until("tool_call")
    beside = 0
    while house.read(session)["turn_active"]:  # others do all they want meanwhile
        assert house.get("/v1/tools")["servers"][0]["state"] == "ready"
        beside += 1
    assert beside > 5
    assert tab.rest().end == "done" and "permission_request" not in tab.kinds
    [row] = executions(house, session)
    assert row["status"] == "error" and "schema takes more than 1 s" in row["result"]

    _a_stop_while_a_call_is_looked_at(house)
    _a_violent_command_in_any_argument(house, provider)
    _a_stop_while_a_server_hangs(house, provider)


def _a_stop_while_a_call_is_looked_at(house: Server) -> None:
    session = house.session()
    tab = house.send(session)
    tab.until("tool_call")
    assert house.stop(session).json()["outcome"] == "stopped"
    assert tab.rest().end == "stopped"


def _a_violent_command_in_any_argument(house: Server, provider: FakeProvider) -> None:
    behave(provider, house, "bad.say", text="rm -rf /")
    tab = house.send(house.session())
    request = tab.until("permission_request")
    assert request["tool"] == "bad.say" and "Look closely" in request["rationale"]
    assert answer(house, request, "once")[0] == 200
    assert tab.rest().end == "done"
    assert told(provider, -1)[0]["content"] == '{"text": "rm -rf /"}'


def _a_stop_while_a_server_hangs(house: Server, provider: FakeProvider) -> None:
    behave(provider, house, "hanging.wait")
    session = house.session()
    tab = house.send(session)
    assert answer(house, tab.until("permission_request"), "once")[0] == 200
    tab.until("permission_resolved")
    assert house.stop(session).json()["outcome"] == "stopped"
    assert [row["status"] for row in executions(house, session)] == ["cancelled"]
