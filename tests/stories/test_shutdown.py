"""An orderly stop ends every turn by name and soon; one server at a time has a home."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import TIMERS, Start, entry


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_running_turns_with_evidence(
    servers: Start, provider: FakeProvider, number: signal.Signals
) -> None:
    provider.behave("fake", tokens=6, hold=3)
    server = servers(TIMERS + entry(provider))
    sessions = [server.session() for _ in range(3)]
    tabs = [server.send(session) for session in sessions]
    for tab in tabs:
        while tab.text != "t0 t1 t2 ":
            tab.until("text_delta")
    began = time.monotonic()
    assert server.process is not None
    server.process.send_signal(number)
    for tab in tabs:
        assert tab.rest().end == "server_shutdown"
        assert tab.meta["outcome"] == "interrupted"
        assert tab.closed_cleanly
    assert server.wait() == 0
    assert time.monotonic() - began < 10
    server.start()
    for session, tab in zip(sessions, tabs, strict=True):
        evidence = server.evidence(session, tab.turn_id)
        assert (evidence["kind"], evidence["payload"]["code"]) == ("pending_state", "server_shutdown")
        assert evidence["payload"]["text"] == "t0 t1 t2 "
        assert server.turn(session, tab.turn_id)["outcome"] == "interrupted"
    assert "recovered" not in server.words()


def test_a_turn_that_has_said_nothing_and_one_that_is_parked_end_too(
    servers: Start, provider: FakeProvider
) -> None:
    ask = {"name": "write_file", "arguments": {"path": "a", "content": "b"}}
    server = servers(TIMERS + entry(provider))
    provider.behave("fake", hold="headers")
    silent = server.session()
    waiting = server.send(silent)
    provider.wait_request("fake")
    provider.behave("fake", tools=(ask,))
    parked = server.session()
    asking = server.send(parked)
    asking.until("permission_request")
    assert server.terminate() == 0
    assert waiting.rest().end == asking.rest().end == "server_shutdown"
    assert [e["decision"] for e in asking.events if e["type"] == "permission_resolved"] == ["cancelled"]
    server.start()
    for session, tab in ((silent, waiting), (parked, asking)):
        assert server.evidence(session, tab.turn_id)["kind"] == "turn_failed"
    assert server.get("/v1/permissions/pending") == {"pending": []}


def test_an_idle_server_stops_at_once(servers: Start, provider: FakeProvider) -> None:
    server = servers(TIMERS + entry(provider))
    server.send(server.session()).rest()
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 6, "no grace is waited for"


def test_a_second_server_on_the_same_home_says_who_holds_it(servers: Start, provider: FakeProvider) -> None:
    server = servers(TIMERS + entry(provider))
    assert server.process is not None
    assert f"process {server.process.pid}" in server.refused()
    assert server.call("GET", "/health").json()["status"] == "ok"


def test_a_killed_server_leaves_its_home_free(servers: Start, provider: FakeProvider) -> None:
    server = servers(TIMERS + entry(provider))
    server.kill()
    assert server.start().call("GET", "/health").status_code == 200


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[turn]\nceiling = 5\n", ["timothy.toml", "ceiling", "ceiling_s"]),
        ("[turn]\nceiling_s = 600\n", ["ceiling_s", "permission_s", "exceed"]),
        ("[trun]\n", ["trun"]),
        ("[[providers]]\nname = 'x'\ndriver = 'open-ai'\n", ["driver", "openai"]),
        ("what", ["timothy.toml"]),
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
