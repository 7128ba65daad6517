"""Server processes for the stories: one that all of them share, and as many more as a story needs."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.server import ROOT, Server
from tests.stories.wire import Stream

CHECKER = ROOT / "scripts" / "check_log.py"
Start = Callable[..., Server]

TIMERS = """
[turn]
ceiling_s = 60
permission_s = 30
checkpoint_s = 0.1
[stream]
heartbeat_s = 0.4
[tools]
allow = ["run_command"]
"""


@pytest.fixture(scope="session")
def provider() -> Iterator[FakeProvider]:
    """The fake that servers are pointed at."""
    with FakeProvider() as running:
        yield running


@pytest.fixture(autouse=True)
def forgetful(provider: FakeProvider) -> Iterator[None]:
    """No test hears of another's orders, requests and connections."""
    provider.clear()
    yield
    while Stream.opened:
        Stream.opened.pop().close()
    provider.clear()


def entry(provider: FakeProvider, name: str = "fake", **more: object) -> str:
    """A table of the chain that dials the fake; its model has its name."""
    settings = {"name": name, "driver": "openai", "base_url": provider.base_url, "model": name, **more}
    lines = (f"{key} = {_toml(value)}" for key, value in settings.items())
    return "\n[[providers]]\n" + "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, (bool, int, float)) else f'"{value}"'


@pytest.fixture
def servers(world: str, tmp_path: Path) -> Iterator[Start]:
    """Start servers, each on a home of its own; at the end each log is checked by a stranger."""
    yield from _servers(world, tmp_path)


@pytest.fixture(scope="session")
def shared_servers(world: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """The same, shared by all stories of a run."""
    yield from _servers(world, tmp_path_factory.mktemp("stories"))


def _servers(world: str, folder: Path) -> Iterator[Start]:
    started: list[Server] = []

    def start(config: str, *, running: bool = True, **environment: str) -> Server:
        server = Server(world, folder / f"home{len(started)}", config, **environment)
        started.append(server)
        return server.start() if running else server

    yield start
    running = [server for server in started if server.process is not None]
    for server in running:
        server.ask_to_end()
    for server in running:
        server.wait()
    for server in started:
        if (server.home / "timothy.db").exists():
            _check(server)


def _check(server: Server) -> None:
    """An independent checker reads the database file; the server's own words name no surprise."""
    command = [sys.executable, str(CHECKER), str(server.home / "timothy.db")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in server.words(), server.words()


@pytest.fixture(scope="session")
def server(shared_servers: Start, provider: FakeProvider) -> Server:
    """One server for all stories: one entry, whose model `fake` does as ordered by `provider.behave`."""
    return shared_servers(TIMERS + entry(provider))


@pytest.fixture(scope="session")
def hasty(shared_servers: Start, provider: FakeProvider) -> Server:
    """The same with a ceiling of 0.6 s."""
    timers = "[turn]\nceiling_s = 0.6\npermission_s = 0.3\ncheckpoint_s = 0.05\n"
    return shared_servers(timers + entry(provider))


@pytest.fixture(scope="session")
def impatient(shared_servers: Start, provider: FakeProvider) -> Server:
    """The same with a permission park of 0.3 s, and heartbeats that come late."""
    return shared_servers("[turn]\nceiling_s = 60\npermission_s = 0.3\n" + entry(provider))


def _sum(expression: str) -> dict[str, Any]:
    return {"call": {"name": "calculate", "input": {"expression": expression}}}


SAME = _sum("1+1")
SCRIPT = {
    "rules": [
        {"match": "loop", "steps": [SAME]},
        {"match": "loop", "tool_result": "", "steps": [SAME]},
        {"match": "break inside", "steps": [{"text": "so far "}, {"raise": True}]},
        {"match": "fail later", "tool_result": "", "steps": [{"error": {"code": "overloaded"}}]},
        {"match": "fail later", "steps": [{"text": "let me see"}, {"call": {"name": "current_time"}}]},
        {"match": "quick", "steps": [{"text": "yes"}]},
    ],
    "turns": [[_sum(f"{number}+1")] for number in range(20)],
}


@pytest.fixture(scope="session")
def scripted(shared_servers: Start) -> Server:
    """A server whose model plays SCRIPT, as fast as it can; what fits no rule asks for one more sum."""
    chain = '[[providers]]\nname = "s"\ndriver = "scripted"\nscript = "script.json"\n'
    server = shared_servers(chain, running=False)
    (server.home / "script.json").write_text(json.dumps(SCRIPT))
    return server.start()
