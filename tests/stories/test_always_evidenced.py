"""kill -9 at each named step of a turn: the next start leaves one evidence, and loses nothing it promised."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from actors.crash import STEPS
from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server, eventually
from tests.stories.wire import Stream

NEVER_BEGAN = ("before_claim", "after_claim")
TOOL = {"name": "write_file", "arguments": {"path": "note.txt", "content": "written"}}
DIED = (EOFError, ConnectionError, TimeoutError)


class Mortal:
    """A server that dies at one step after another, always in the same session.

    Every start recovers what the last kill left and is armed for the next step, so the send that dies next
    is also the one that proves that the session is free.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.armed = ""
        self.session = ""

    def arm(self, step: str) -> None:
        """Run, and be ready to die at `step`."""
        if self.armed != step:
            self.server.kill()
            self.start(step)

    def start(self, step: str) -> None:
        self.server.start(TIMOTHY_CRASH_AT=f"{step}:12" if step == "in_text" else step)
        self.armed = step
        self.session = self.session or self.server.session()

    def die(self) -> Stream | None:
        """Send, and answer what is asked, until the server is dead; what the client saw, if anything."""
        stream = None
        try:
            stream = self.server.send(self.session, "before the fall")
            for frame in stream:
                if frame.type == "permission_request":
                    threading.Thread(target=allow, args=(self.server,)).start()
        except DIED:
            pass
        assert self.server.wait() == -9, "the step was not reached"
        return stream


@pytest.fixture(scope="module")
def mortal(shared_servers: Start, provider: FakeProvider) -> Mortal:
    server = Mortal(shared_servers(TIMERS + entry(provider), running=False))
    server.start(STEPS[0])
    return server


def order(provider: FakeProvider, step: str) -> None:
    if step.startswith("tool") or step == "permission_parked":
        provider.behave("fake", Behaviour(tools=(TOOL,), text="it is written"))
    else:
        provider.behave("fake", tokens=30, delay_s=0.01 if step == "in_text" else 0)


def allow(server: Server) -> None:
    """Answer what waits for a person; the server may die of it."""
    try:
        for row in server.get("/v1/permissions/pending")["pending"]:
            server.call("POST", f"/v1/permissions/{row['id']}", {"decision": "once"})
    except (requests.ConnectionError, requests.Timeout):
        return


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_leaves_one_evidence(mortal: Mortal, provider: FakeProvider, step: str) -> None:
    order(provider, step)
    mortal.arm(step)
    server, session = mortal.server, mortal.session
    before = server.events(session)
    stream = mortal.die()
    mortal.start((*STEPS, "")[STEPS.index(step) + 1])
    assert server.read(session)["turn_active"] is False
    rows = server.events(session)[len(before) :]
    turns = {row["turn_id"] for row in rows if row["turn_id"]}
    assert len(turns) == (0 if step in NEVER_BEGAN else 1)
    for turn_id in turns:
        evidence = server.evidence(session, turn_id)
        whole = step in ("after_evidence", "before_release")
        assert server.turn(session, turn_id)["outcome"] == ("completed" if whole else "interrupted")
        assert evidence["payload"].get("code") == (None if whole else "interrupted")
        assert whole or evidence["payload"]["duration_ms"] is None
        check_tools(rows, step)
    if stream is not None and stream.status == 200:
        assert turns == {stream.turn_id}
        assert not {"done", "error", "meta"} & set(stream.kinds)


def test_after_all_those_deaths_the_session_goes_on(mortal: Mortal) -> None:
    mortal.arm("")
    assert mortal.server.send(mortal.session, "after the fall").rest().end == "done"


def check_tools(rows: list[dict[str, Any]], step: str) -> None:
    """A tool that may have run says so; what was asked and not answered is cancelled."""
    ran = [row["payload"] for row in rows if row["kind"] == "tool_execution"]
    answers = [row["payload"]["decision"] for row in rows if row["kind"] == "permission_resolved"]
    if step in ("tool_start_durable", "tool_ended"):
        assert [(row["name"], row["status"], row["result"]) for row in ran] == [
            ("write_file", "cancelled", "interrupted, may have run")
        ]
    if step == "permission_parked":
        assert (ran, answers) == ([], ["cancelled"])


def test_text_that_was_shown_before_a_checkpoint_survives_a_kill(
    servers: Start, provider: FakeProvider
) -> None:
    provider.behave("fake", tokens=40, hold=20)
    server = servers(TIMERS + entry(provider))
    session = server.session()
    tab = server.send(session)
    while len(tab.text.split()) < 20:
        tab.until("text_delta")
    tab.close()  # nobody watches: the checkpoint comes all the same
    wait_for_piece(server.home)
    server.kill()
    server.start()
    evidence = server.evidence(session, tab.turn_id)
    assert evidence["kind"] == "pending_state"
    assert evidence["payload"]["final"] is True
    assert evidence["payload"]["text"] == tab.text
    item = server.read(session)["items"][-1]
    assert (item["kind"], item["code"], item["text"]) == ("partial", "interrupted", tab.text)
    assert [row["status"] for row in server.turn(session, tab.turn_id)["attempts"]] == ["error"]


def wait_for_piece(home: Path) -> None:
    """Until the database holds all twenty pieces of the running text."""

    def saved() -> bool:
        with closing(sqlite3.connect(home / "timothy.db")) as connection:
            texts = connection.execute("SELECT text FROM pending_states ORDER BY number").fetchall()
        return "t19" in "".join(text for (text,) in texts)

    eventually(saved)


def test_many_unfinished_turns_are_recovered_before_the_port_opens(
    servers: Start, provider: FakeProvider
) -> None:
    provider.behave("fake", tokens=5, hold=1)
    server = servers(TIMERS + entry(provider))
    turns: dict[str, str] = {}
    for _ in range(30):
        session = server.session()
        url = f"/v1/sessions/{session}/messages"
        answer = server.call("POST", url, {"message": "hi"}, Prefer="respond-async")
        turns[session] = answer.json()["turn_id"]
    server.kill()
    server.start()
    listed: list[dict[str, Any]] = server.get("/v1/sessions")["sessions"]
    assert {row["id"]: row["turn_active"] for row in listed} == dict.fromkeys(turns, False)
    for session, turn_id in turns.items():
        assert server.evidence(session, turn_id)["payload"]["code"] == "interrupted"
        assert turn_id in server.words(), "a line a turn says that it was recovered"


def test_a_send_that_was_never_acknowledged_can_be_sent_again_with_its_key(
    servers: Start, provider: FakeProvider
) -> None:
    """Dead after the turn was durable and before the 200: the repeat gets that turn, and no second one."""
    server = servers(TIMERS + entry(provider), TIMOTHY_CRASH_AT="after_begun")
    session = server.session()
    with pytest.raises(DIED):
        server.send(session, "once only", Idempotency_Key="key-1")
    server.wait()
    server.start(TIMOTHY_CRASH_AT="")
    again = server.send(session, "once only", Idempotency_Key="key-1").rest()
    assert (again.status, again.headers.get("idempotent-replayed")) == (200, "true")
    assert again.end == "interrupted"
    kinds = [row["kind"] for row in server.events(session)]
    assert kinds.count("user_message") == 1
    assert json.dumps(kinds).count("turn_failed") == 1
