"""MCP servers that others wrote, in Python and in Node: called, cancelled, killed and started again."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.tools.waiting import below, processes, until
from timothy.cancel import Cancel
from timothy.config import McpServer, Tools
from timothy.permissions import decide, policy_of
from timothy.tools.base import Context, Tool, ToolError, check
from timothy.tools.mcp import MISSING, Servers, ServerStatus
from timothy.upkeep.doctor import tool_servers

ROOT = Path(__file__).resolve().parents[2]
BAD_SERVER = ROOT / "tests/tools/mcp_server.py"
EVERYTHING = ROOT / ".cache/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
START_S = 60


MARK = f"mark={uuid.uuid4().hex}"
CLOCK = McpServer(name="time", command=sys.executable, args=("-X", MARK, "-m", "mcp_server_time"))


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A server of times, written in Python; MARK stands in its command line."""
    servers = Servers((CLOCK,), tmp_path_factory.mktemp("home"), first_delay_s=0.1)
    servers.start()
    yield servers
    servers.close()


def ready(servers: Servers, name: str = "time") -> dict[str, Tool]:
    """The tools, once the server of that name runs."""
    until(
        lambda: [True for server in servers.status() if server.name == name and server.state == "ready"],
        START_S,
    )
    return servers.tools()


def status(servers: Servers, name: str = "time") -> ServerStatus:
    [found] = [server for server in servers.status() if server.name == name]
    return found


@pytest.mark.once
def test_tools_of_a_server_in_python_are_called(clock: Servers, context: Context) -> None:
    tools = ready(clock)
    assert sorted(tools) == ["time.convert_time", "time.get_current_time"]
    tool = tools["time.get_current_time"]
    assert check(tool, {"timezone": "Asia/Tokyo"}) is None
    assert "timezone" in (check(tool, {}) or "")
    assert '"timezone": "Asia/Tokyo"' in tool.run({"timezone": "Asia/Tokyo"}, context, Cancel())
    with pytest.raises(ToolError, match="Nowhere"):
        tool.run({"timezone": "Nowhere"}, context, Cancel())
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(ToolError, match="cancelled"):
        tool.run({"timezone": "Asia/Tokyo"}, context, cancel)


@pytest.mark.once
def test_a_server_s_tools_are_asked_for_whatever_it_says(clock: Servers) -> None:
    for tool in ready(clock).values():
        verdict = decide(tool, {"timezone": "Asia/Tokyo"}, Tools(), granted=False)
        assert (verdict.kind, verdict.danger, verdict.subject) == ("ask", "execute", "time")
        assert "MCP server time" in verdict.rationale and "Asia/Tokyo" in verdict.rationale
        assert policy_of(tool, Tools(allow=("time.*",))) == "allow"


@pytest.mark.once
def test_a_helper_that_dies_is_started_again(clock: Servers, context: Context) -> None:
    tool = ready(clock)["time.get_current_time"]
    [server] = processes(f"{MARK} -m")
    helper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(helper, signal.SIGKILL)
    until(lambda: server not in processes(MARK))
    ready(clock)
    assert "Tokyo" in tool.run({"timezone": "Asia/Tokyo"}, context, Cancel())


@pytest.mark.once
def test_a_close_leaves_no_process_and_no_way_back(clock: Servers, context: Context) -> None:
    """The last of those that share these servers."""
    tool = ready(clock)["time.get_current_time"]
    clock.close()
    assert processes(MARK) == []
    clock.start()
    assert status(clock).state == "waiting" and clock.tools() == {}
    with pytest.raises(ToolError, match="not running"):
        tool.run({"timezone": "Asia/Tokyo"}, context, Cancel())


@pytest.mark.parametrize("said", [b"", b'{"text": "4'])
def test_an_answer_that_the_helper_s_death_cuts_off_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    ours, theirs = socket.socketpair()
    servers = Servers((), tmp_path)
    monkeypatch.setattr(servers, "_connected", lambda _: ours)
    with theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ToolError, match="died"):
            servers.ask({"ask": "servers"}, Cancel(), 5)


PARENT = """
import sys, time
from pathlib import Path
from timothy.config import McpServer
from timothy.tools.mcp import Servers
servers = Servers((McpServer(name="half", command=sys.executable, args=tuple(sys.argv[1:])),), Path("/"))
servers.start()
while not servers.tools():
    time.sleep(0.05)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.once
def test_servers_die_with_this_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, *server("half", tmp_path).args]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as said:
        assert said.readline() == b"ready\n"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until(lambda: processes(str(tmp_path)) == [])


def test_without_servers_nothing_is_started(tmp_path: Path) -> None:
    servers = Servers((), tmp_path)
    servers.start()
    assert servers.tools() == {} and servers.status() == []
    servers.close()


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    servers = Servers((CLOCK,), tmp_path)
    servers.start()
    assert servers.status() == [ServerStatus("time", "waiting", error=MISSING)]
    assert servers.tools() == {}


PLAIN: dict[str, Any] = {"type": "object"}
RUNAWAY = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}


def listed(name: str, schema: Any = PLAIN, description: str = "") -> dict[str, Any]:
    """A tool as `tools/list` shows it."""
    return {"name": name, "description": description, "inputSchema": schema}


def nested(depth: int) -> dict[str, Any]:
    """A schema of objects within objects."""
    return {"type": "object", "properties": {"a": nested(depth - 1)} if depth else {}}


FOREIGN = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(?<letters>\p{L}+)$"}}}
UNUSABLE = [
    listed("odd name!"),
    listed("odd-schema", {"type": "object", "properties": {"a": {"type": "no such type"}}}),
    listed("no-number", {"type": "object", "properties": {"a": {"minimum": float("nan")}}}),
    listed("large", {"type": "object", "description": "x" * 200_000}),
]
USABLE = [
    listed("slow", RUNAWAY),
    listed("foreign", FOREIGN, "half an emoji: \ud83d"),
    listed("deep", nested(60)),
    listed("deep", nested(60)),
]
PLANS: dict[str, dict[str, Any]] = {
    "bad": {"noise": 3, "tools": UNUSABLE + USABLE + [listed(f"tool{number}") for number in range(500)]},
    "half": {"tools": [listed("say")], "result": "cut \ud83d"},
    "unreadable": {"tools": [listed("deep", nested(400))]},
    "hanging": {"hang": "initialize"},
    "noisy": {"noise": 5_000, "tools": [listed("never")]},
    "dying": {"tools": [listed("last")], "die": "tools/call"},
    "mortal": {"tools": [listed("say")]},
}
BROKEN = McpServer(name="broken", command="no-such-program")
BRIEF = McpServer(name="brief", command=sys.executable, args=("-c", ""))


def server(name: str, folder: Path) -> McpServer:
    """The tests' own server, as bad as its plan says."""
    plan = folder / f"{name}.json"
    plan.write_text(json.dumps(PLANS[name]))
    return McpServer(name=name, command=sys.executable, args=(str(BAD_SERVER), str(plan)))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All those bad servers side by side."""
    folder = tmp_path_factory.mktemp("crowd")
    settings = (BROKEN, BRIEF, *(server(name, folder) for name in PLANS))
    servers = Servers(settings, folder, first_delay_s=0.1)
    for name in ("bad", "half", "dying", "mortal"):
        ready(servers, name)
    yield servers
    servers.close()


def test_a_server_that_cannot_start_is_named_and_tried_ever_later(crowd: Servers) -> None:
    until(lambda: (now := status(crowd, "broken")).starts >= 3 and (now.next_start_s or 0) > 0.3, START_S)
    broken = status(crowd, "broken")
    assert broken.state == "waiting" and "no-such-program" in broken.error
    assert not [name for name in crowd.tools() if name.startswith("broken.")]


def test_a_server_that_ends_at_once_does_not_harm_another(crowd: Servers, context: Context) -> None:
    until(lambda: status(crowd, "brief").starts >= 2 and status(crowd, "brief").error, START_S)
    assert crowd.tools()["mortal.say"].run({"a": 1}, context, Cancel()) == '{"a": 1}'


def test_a_server_that_dies_is_started_again(crowd: Servers, context: Context) -> None:
    tool = ready(crowd, "mortal")["mortal.say"]
    for lives in (2, 3):
        [process] = {*processes("mortal.json")} & {*below(os.getpid())}
        os.kill(process, signal.SIGKILL)
        until(
            lambda lives=lives: (now := status(crowd, "mortal")).state == "ready" and now.starts == lives,
            START_S,
        )
        assert tool.run({"a": lives}, context, Cancel()) == json.dumps({"a": lives})


def test_a_tool_that_no_model_could_call_is_left_out(crowd: Servers) -> None:
    names = [name for name in crowd.tools() if name.startswith("bad.") and "tool" not in name]
    assert names == ["bad.slow", "bad.foreign", "bad.deep"]
    bad = status(crowd, "bad")
    reasons = {
        "unusable name": 1,
        "name listed again": 1,
        "schema over 100000 bytes": 1,
        "unusable schema": 2,
    }
    assert (bad.tools, bad.left_out) == (503, reasons)
    assert [finding.message for finding in tool_servers([bad])] == [
        f"{count} of its tools cannot be offered: {reason}" for reason, count in reasons.items()
    ]


def test_a_server_may_list_hundreds_of_tools_and_say_what_is_no_json(crowd: Servers) -> None:
    began = time.monotonic()
    tools = crowd.tools()
    assert time.monotonic() - began < 2  # what is asked at every step works with no schema
    assert len([name for name in tools if name.startswith("bad.tool")]) == 500
    assert tools["bad.foreign"].description == "half an emoji: \ufffd"


def test_a_schema_that_runs_away_costs_its_own_call_only(crowd: Servers, context: Context) -> None:
    tools = crowd.tools()
    slow = tools["bad.slow"]
    faults: list[str | None] = []
    caller = threading.Thread(target=lambda: faults.append(check(slow, {"text": "a" * 60 + "!"})))
    caller.start()
    assert check(slow, {"text": "aaa"}) is None
    assert "does not match" in (check(slow, {"text": "b"}) or "")
    assert tools["bad.tool7"].run({"a": 1}, context, Cancel()) == '{"a": 1}'
    caller.join(30)
    assert faults[0] and "bad.slow cannot be called so: its server's schema takes more than 1 s" in faults[0]


def test_a_pattern_of_another_language_is_left_to_its_server(crowd: Servers, context: Context) -> None:
    tool = crowd.tools()["bad.foreign"]
    assert check(tool, {"a": "x"}) is None
    assert tool.run({"a": "x"}, context, Cancel()) == '{"a": "x"}'


def test_an_answer_that_cannot_be_read_is_repaired_or_its_call_s_error(
    crowd: Servers, context: Context
) -> None:
    assert crowd.tools()["half.say"].run({}, context, Cancel()) == "cut \ufffd"
    until(lambda: "cannot be read" in status(crowd, "unreadable").error, START_S)


def test_a_server_that_prints_too_much_that_is_no_message_is_ended(crowd: Servers) -> None:
    noisy = until(
        lambda: [now for now in crowd.status() if now.name == "noisy" and now.state == "waiting"], START_S
    )
    assert "no messages of MCP" in noisy[0].error


def test_a_server_that_hangs_at_its_start_holds_no_other_up(crowd: Servers) -> None:
    assert status(crowd, "hanging").state != "ready"


def test_a_server_that_dies_within_a_call_may_have_run_it(crowd: Servers, context: Context) -> None:
    tool = ready(crowd, "dying")["dying.last"]
    with pytest.raises(ToolError, match="died during the call, which may have run"):
        tool.run({}, context, Cancel())


def test_the_program_that_checks_is_started_again(crowd: Servers) -> None:
    slow = crowd.tools()["bad.slow"]
    programs = {*processes("timothy.tools.children.checker")} & {*below(os.getpid())}
    for process in programs:
        os.kill(process, signal.SIGKILL)
    assert programs and "does not match" in (check(slow, {"text": "b"}) or "")


@pytest.fixture(scope="module")
def port() -> int:
    """Where the server over HTTP is, when it is there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Servers]:
    """The server of everything, written in Node, twice: over stdio and, for whoever starts it, over HTTP."""
    if not EVERYTHING.exists():
        missing("the MCP server in Node is not installed (see scripts/test)")
    node = McpServer(name="node", command="node", args=(str(EVERYTHING), "stdio"))
    web = McpServer(name="web", url=f"http://127.0.0.1:{port}/mcp")
    servers = Servers((node, web), tmp_path_factory.mktemp("home"), first_delay_s=0.1)
    servers.start()
    yield servers
    servers.close()


@pytest.mark.node
def test_a_server_over_http_comes_and_goes(everything: Servers, port: int, context: Context) -> None:
    until(lambda: (now := status(everything, "web")).state == "waiting" and now.starts, START_S)
    node = subprocess.Popen(
        ["node", str(EVERYTHING), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        tool = ready(everything, "web")["web.echo"]
        assert tool.danger == "network"
        assert tool.run({"message": "over HTTP"}, context, Cancel()) == "Echo: over HTTP"
    finally:
        node.kill()
        node.wait()
    with pytest.raises(ToolError, match=r"web died during the call|web cannot be reached"):
        tool.run({"message": "nobody there"}, context, Cancel())
    until(lambda: (now := status(everything, "web")).state == "waiting" and now.error, START_S)


@pytest.mark.node
def test_tools_of_a_server_in_node_are_called_and_cancelled(everything: Servers, context: Context) -> None:
    tools = ready(everything, "node")
    assert tools["node.echo"].run({"message": "hello"}, context, Cancel()) == "Echo: hello"
    assert "is 5" in tools["node.get-sum"].run({"a": 2, "b": 3}, context, Cancel())
    assert "[image image/png, " in tools["node.get-tiny-image"].run({}, context, Cancel())
    cancel = Cancel()
    timer = threading.Timer(0.3, cancel.cancel)
    timer.start()
    began = time.monotonic()
    with pytest.raises(ToolError, match="cancelled"):
        tools["node.trigger-long-running-operation"].run({"duration": 30, "steps": 30}, context, cancel)
    assert time.monotonic() - began < 20
    timer.join()
