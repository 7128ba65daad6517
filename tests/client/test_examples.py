"""The example programs ask, watch and stop from processes of their own, and say clearly what went wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.contract_server import (
    SESSION,
    TURN,
    Answer,
    ContractServer,
    Reset,
    as_json,
    frames,
    refused,
    streamed,
)
from tests.client.test_stream import LIVE, MESSAGES, STARTED, WHOLE
from timothy.events import Error, Status, TextDelta

pytestmark = pytest.mark.once
SCRIPTS = Path(__file__).parents[2] / "scripts"
NEW = as_json({"id": SESSION, "title": None, "created_at": STARTED.started_at}, 201)
STOPPED = Error("stopped", "you said so", True)
STOP = f"POST /v1/sessions/{SESSION}/stop"


def run(script: str, *arguments: str, token: str | None = "secret") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TIMOTHY_API_TOKEN"}
    if token is not None:
        environment["TIMOTHY_API_TOKEN"] = token
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    return subprocess.run(
        command, env={**environment, "PYTHONIOENCODING": "utf-8"}, capture_output=True, text=True, timeout=30
    )


def test_ask_prints_the_answer_and_names_the_session(server: ContractServer) -> None:
    server.on("POST /v1/sessions", NEW)
    server.on(MESSAGES, streamed(b": hello\n", *frames(*WHOLE)))
    ran = run("ask.py", "--url", server.url, "Hello?")
    assert (ran.returncode, ran.stdout) == (0, "Hello.\u2028\n")
    assert ran.stderr == f"session {SESSION}\n"
    assert server.asks(MESSAGES)[0].body == {"message": "Hello?"}
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer secret"}


def test_ask_shows_why_a_turn_failed(server: ContractServer) -> None:
    server.on(
        MESSAGES,
        streamed(*frames(STARTED, Status("loading_model", "loading"), TextDelta("Hi"), STOPPED)),
    )
    ran = run("ask.py", "--url", server.url, "--session", SESSION, "--model", "tiny", "Hello?")
    assert (ran.returncode, ran.stdout) == (1, "Hi")
    assert "[status: loading]" in ran.stderr
    assert "[stopped: you said so]" in ran.stderr
    assert server.asked[0].body == {"message": "Hello?", "model": "tiny"}


def test_ask_says_that_a_cut_turn_goes_on(server: ContractServer) -> None:
    server.on(MESSAGES, streamed(*frames(*WHOLE[:2]), Reset()))
    ran = run("ask.py", "--url", server.url, "--session", SESSION, "Hello?")
    assert (ran.returncode, ran.stdout) == (1, "Hel")
    assert "the turn goes on" in ran.stderr


def test_watch_goes_on_after_a_cut(server: ContractServer) -> None:
    parts = frames(*WHOLE)
    server.on(LIVE, streamed(*parts[:2], Reset()), streamed(*parts[2:]))
    ran = run("watch.py", "--url", server.url, SESSION)
    assert (ran.returncode, ran.stdout) == (0, "Hello.\u2028")
    assert [asked.query for asked in server.asks(LIVE)] == [{}, {"after": f"{TURN}:2"}]


def test_watch_says_that_the_turn_is_over_or_that_nothing_runs(server: ContractServer) -> None:
    nothing = refused(404, "no_active_turn")
    server.on(LIVE, streamed(*frames(*WHOLE[:2])), nothing, nothing)
    assert run("watch.py", "--url", server.url, SESSION).returncode == 0
    ran = run("watch.py", "--url", server.url, SESSION)
    assert (ran.returncode, ran.stderr) == (1, "nothing runs in this session\n")


def test_stop_says_the_outcome(server: ContractServer) -> None:
    server.on(
        STOP,
        as_json({"turn_id": TURN, "outcome": "stopped"}),
        as_json({"turn_id": TURN, "state": "stopping"}, 202),
        refused(404, "no_active_turn", "nothing runs"),
        refused(409, "turn_mismatch", "another turn runs"),
    )
    results = [run("stop.py", "--url", server.url, "--turn", TURN, SESSION) for _ in range(4)]
    assert [ran.returncode for ran in results] == [0, 0, 1, 2]
    assert [ran.stdout for ran in results[:2]] == [f"turn {TURN}: stopped\n", f"turn {TURN}: stopping\n"]
    assert results[3].stderr == "turn_mismatch: another turn runs\n"
    assert server.asked[0].body == {"turn_id": TURN}


EVERY = [("ask.py", ["Hello?"]), ("watch.py", [SESSION]), ("stop.py", [SESSION])]


@pytest.mark.parametrize(("script", "arguments"), EVERY)
def test_a_missing_token_is_asked_for(script: str, arguments: list[str]) -> None:
    ran = run(script, *arguments, token=None)
    assert ran.returncode == 2
    assert "TIMOTHY_API_TOKEN" in ran.stderr


@pytest.mark.parametrize(("script", "arguments"), EVERY)
def test_a_refusal_is_shown_in_the_servers_words(
    server: ContractServer, script: str, arguments: list[str]
) -> None:
    for call in ("POST /v1/sessions", LIVE, STOP):
        server.on(call, refused(401, "unauthorized", "that is not the token"))
    ran = run(script, "--url", server.url, *arguments)
    assert (ran.returncode, ran.stderr) == (2, "unauthorized: that is not the token\n")


@pytest.mark.parametrize(("script", "arguments"), EVERY)
def test_another_kind_of_server_is_said_so(server: ContractServer, script: str, arguments: list[str]) -> None:
    for call in ("POST /v1/sessions", LIVE, STOP):
        server.on(call, Answer(404, {"Content-Type": "text/html"}, (b"<html>",)))
    ran = run(script, "--url", server.url, *arguments)
    assert ran.returncode == 2
    assert "not a Timothy server" in ran.stderr
