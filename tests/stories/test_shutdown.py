"""An orderly stop ends every turn by name and soon; one server at a time has a home."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server
from tests.stories.wire import Stream

ASK = {"name": "write_file", "arguments": {"path": "a", "content": "b"}}


@pytest.fixture(scope="module")
def house(shared_servers: Start, provider: FakeProvider) -> Server:
    """A server that each of these tests leaves running, or starts."""
    return shared_servers(TIMERS + entry(provider))


def test_a_second_server_on_the_same_home_says_who_holds_it(house: Server) -> None:
    assert house.process is not None
    assert f"process {house.process.pid}" in house.refused()
    assert house.send(house.session()).rest().end == "done"


def test_a_port_that_is_taken_stops_the_start_and_leaves_the_home_free(house: Server) -> None:
    began = time.monotonic()
    assert house.terminate() == 0
    assert time.monotonic() - began < 6, "an idle server waits for no grace"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in house.refused("--port", port)
    assert house.start().get("/v1/permissions/pending") == {"pending": []}


def test_a_signal_ends_every_turn_with_evidence(house: Server, provider: FakeProvider) -> None:
    """One that speaks, one that has said nothing, one that waits for a person."""
    server = house
    turns = dict(running(server, provider))
    began = time.monotonic()
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    for tab in turns.values():
        assert tab.rest().end == "server_shutdown"
        assert (tab.meta["outcome"], tab.closed_cleanly) == ("interrupted", True)
    assert server.wait() == 0
    assert time.monotonic() - began < 10
    server.start()
    for session, tab in turns.items():
        evidence = server.evidence(session, tab.turn_id)
        assert evidence["kind"] == ("pending_state" if tab.text else "turn_failed")
        assert evidence["payload"].get("text", "") == tab.text
        assert evidence["payload"]["code"] == "server_shutdown"
        assert server.turn(session, tab.turn_id)["outcome"] == "interrupted"
    assert "recovered" not in server.words()
    assert server.get("/v1/permissions/pending") == {"pending": []}


def running(server: Server, provider: FakeProvider) -> Iterator[tuple[str, Stream]]:
    for behaviour, kind in (
        (Behaviour(tokens=6, hold=1), "text_delta"),
        (Behaviour(hold="headers"), "turn_started"),
        (Behaviour(tools=(ASK,)), "permission_request"),
    ):
        provider.behave("fake", behaviour)
        session = server.session()
        tab = server.send(session)
        tab.until(kind)
        yield session, tab


@pytest.mark.once
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[turn]\nceiling = 5\n", ["timothy.toml", "ceiling", "ceiling_s"]),
        ("[turn]\nceiling_s = 600\n", ["ceiling_s", "permission_s", "exceed"]),
    ],
)
def test_a_wrong_configuration_stops_the_start_and_is_named(
    servers: Start, config: str, words: list[str]
) -> None:
    said = servers(config, running=False).refused()
    for word in words:
        assert word in said


@pytest.mark.once
def test_the_command_line_serves_and_a_second_ctrl_c_ends_at_once(
    servers: Start, provider: FakeProvider, tmp_path: Path
) -> None:
    provider.behave("fake", hold="headers")
    server = servers(TIMERS + entry(provider), running=False)
    command = [
        str(Path(sys.executable).parent / "timothy"),
        "serve",
        "--port",
        "0",
        "--home",
        str(server.home),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    assert line.startswith("Timothy listens: http://127.0.0.1:") and "/#token=" in line
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=5) in (0, 130)
    process.stdout.close()
    process.stderr.close()
