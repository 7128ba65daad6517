"""MCP servers that others wrote, in Python and in Node: called, cancelled, killed and started again."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.tools.waiting import processes, until
from timothy.cancel import Cancel
from timothy.config import McpServer, Tools
from timothy.permissions import decide, policy_of
from timothy.tools.base import Context, Tool, ToolError, check
from timothy.tools.mcp import MISSING, Servers, ServerStatus

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = ROOT / ".cache/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
START_S = 60


def clock(mark: str = "none") -> McpServer:
    """The server of times, written in Python; `mark` stands in its command line."""
    return McpServer(
        name="time", command=sys.executable, args=("-X", f"mark={mark}", "-m", "mcp_server_time")
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Servers]]:
    """Start servers that are all gone after the test."""
    started: list[Servers] = []

    def begin(*settings: McpServer, first_delay_s: float = 0.1) -> Servers:
        servers = Servers(settings, tmp_path, first_delay_s)
        started.append(servers)
        servers.start()
        return servers

    yield begin
    for servers in started:
        servers.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tool]]:
    """The tools of a running server of times, for tests that do it no harm."""
    servers = Servers((clock(),), tmp_path_factory.mktemp("home"))
    servers.start()
    yield ready(servers)
    servers.close()


def ready(servers: Servers, name: str = "time") -> dict[str, Tool]:
    """The tools, once the server of that name runs."""
    until(
        lambda: [True for server in servers.status() if server.name == name and server.state == "ready"],
        START_S,
    )
    return servers.tools()


def status(servers: Servers) -> ServerStatus:
    [only] = servers.status()
    return only


def test_tools_of_a_server_in_python_are_called(shared: dict[str, Tool], context: Context) -> None:
    tools = shared
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


def test_a_server_s_tools_are_asked_for_whatever_it_says(shared: dict[str, Tool]) -> None:
    for tool in shared.values():
        verdict = decide(tool, {"timezone": "Asia/Tokyo"}, Tools(), granted=False)
        assert (verdict.kind, verdict.danger, verdict.subject) == ("ask", "execute", "time")
        assert "MCP server time" in verdict.rationale and "Asia/Tokyo" in verdict.rationale
        assert policy_of(tool, Tools(allow=("time.*",))) == "allow"


def test_a_server_that_dies_is_started_again(start: Callable[..., Servers], context: Context) -> None:
    mark = uuid.uuid4().hex
    servers = start(clock(mark))
    tool = ready(servers)["time.get_current_time"]
    for lives in (2, 3):
        [process] = processes(f"mark={mark} -m")
        os.kill(process, signal.SIGKILL)
        until(lambda lives=lives: (now := status(servers)).state == "ready" and now.starts == lives, START_S)
        assert "Tokyo" in tool.run({"timezone": "Asia/Tokyo"}, context, Cancel())


@pytest.mark.once
def test_a_server_that_cannot_start_is_named_and_tried_ever_later(start: Callable[..., Servers]) -> None:
    servers = start(McpServer(name="broken", command="no-such-program"))
    later = until(lambda: [now for now in servers.status() if (now.next_start_s or 0) > 0.3], START_S)
    assert later[0].state == "waiting" and later[0].starts >= 3
    assert "no-such-program" in later[0].error
    assert servers.tools() == {}


@pytest.mark.once
def test_a_server_that_ends_at_once_does_not_harm_another(
    start: Callable[..., Servers], context: Context
) -> None:
    servers = start(McpServer(name="brief", command=sys.executable, args=("-c", "")), clock())
    tools = ready(servers)
    until(lambda: servers.status()[0].starts >= 2, START_S)
    assert servers.status()[0].error
    assert "Tokyo" in tools["time.get_current_time"].run({"timezone": "Asia/Tokyo"}, context, Cancel())


@pytest.mark.once
def test_a_helper_that_dies_is_started_again(start: Callable[..., Servers], context: Context) -> None:
    mark = uuid.uuid4().hex
    servers = start(clock(mark))
    tool = ready(servers)["time.get_current_time"]
    [server] = processes(f"mark={mark} -m")
    helper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(helper, signal.SIGKILL)
    until(lambda: processes(mark) == [])
    ready(servers)
    assert "Tokyo" in tool.run({"timezone": "Asia/Tokyo"}, context, Cancel())


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


@pytest.mark.once
def test_a_close_leaves_no_process_and_no_way_back(start: Callable[..., Servers], context: Context) -> None:
    mark = uuid.uuid4().hex
    servers = start(clock(mark))
    tool = ready(servers)["time.get_current_time"]
    servers.close()
    assert processes(mark) == []
    servers.start()
    assert status(servers).state == "waiting" and servers.tools() == {}
    with pytest.raises(ToolError, match="not running"):
        tool.run({"timezone": "Asia/Tokyo"}, context, Cancel())


PARENT = """
import sys, time
from pathlib import Path
from timothy.config import McpServer
from timothy.tools.mcp import Servers
args = ("-X", "mark=" + sys.argv[1], "-m", "mcp_server_time")
servers = Servers((McpServer(name="time", command=sys.executable, args=args),), Path("/"))
servers.start()
while not servers.tools():
    time.sleep(0.05)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.once
def test_servers_die_with_this_process() -> None:
    mark = uuid.uuid4().hex
    parent = subprocess.Popen([sys.executable, "-c", PARENT, mark], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as said:
        assert said.readline() == b"ready\n"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until(lambda: processes(mark) == [])


def test_without_servers_nothing_is_started(tmp_path: Path) -> None:
    servers = Servers((), tmp_path)
    servers.start()
    assert servers.tools() == {} and servers.status() == []
    servers.close()


def test_a_missing_extra_is_named(start: Callable[..., Servers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    servers = start(clock())
    assert servers.status() == [ServerStatus("time", "waiting", error=MISSING)]
    assert servers.tools() == {}


def test_a_tool_that_no_model_could_call_is_left_out(
    start: Callable[..., Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: dict[str, Any] = {"type": "object"}
    listed = [
        {"name": "good", "description": "", "schema": plain},
        {"name": "odd name!", "description": "", "schema": plain},
        {"name": "odd-schema", "description": "", "schema": {"type": "no such type"}},
        {"name": "no-object", "description": "", "schema": {"type": "string"}},
    ]
    servers = start()
    servers._settings = (clock(),)
    answer = [{"name": "time", "state": "ready", "tools": 4, "starts": 1, "listed": listed}]
    monkeypatch.setattr(servers, "ask", lambda *_: answer)
    assert list(servers.tools()) == ["time.good"]


@pytest.fixture
def everything() -> Path:
    """The server of everything, written in Node."""
    if not EVERYTHING.exists():
        missing("the MCP server in Node is not installed (see scripts/test)")
    return EVERYTHING


@pytest.mark.node
def test_tools_of_a_server_in_node_are_called_and_cancelled(
    start: Callable[..., Servers], context: Context, everything: Path
) -> None:
    tools = ready(start(McpServer(name="node", command="node", args=(str(everything), "stdio"))), "node")
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


@pytest.mark.node
def test_a_server_over_http_comes_and_goes(
    start: Callable[..., Servers], context: Context, everything: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers = start(McpServer(name="web", url=f"http://127.0.0.1:{port}/mcp"))
    until(lambda: status(servers).state == "waiting" and status(servers).error, START_S)
    node = subprocess.Popen(
        ["node", str(everything), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        tool = ready(servers, "web")["web.echo"]
        assert tool.danger == "network"
        assert tool.run({"message": "over HTTP"}, context, Cancel()) == "Echo: over HTTP"
    finally:
        node.kill()
        node.wait()
    with pytest.raises(ToolError, match=r"web died during the call|web cannot be reached"):
        tool.run({"message": "nobody there"}, context, Cancel())
    until(lambda: status(servers).state == "waiting" and status(servers).error, START_S)
