"""kill -9 at each named step of a turn: the next start leaves one evidence, and loses nothing it promised."""

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
            stream = self.server.send(self.session, "before the fall", Idempotency_Key=f"key-{self.armed}")
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
        check_repeat(mortal, step, turn_id)
        check_permission(server, rows)
    if stream is not None and stream.status == 200:
        assert turns == {stream.turn_id}
        assert not {"done", "error", "meta"} & set(stream.kinds)


def test_after_all_those_deaths_the_session_goes_on(mortal: Mortal) -> None:
    mortal.arm("")
    assert mortal.server.send(mortal.session, "after the fall").rest().end == "done"


def check_repeat(mortal: Mortal, step: str, turn_id: str) -> None:
    """Acknowledged or not, the same send again gets that turn, and no second one."""
    again = mortal.server.send(mortal.session, "before the fall", Idempotency_Key=f"key-{step}").rest()
    assert (again.status, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.turn_id == turn_id


def check_permission(server: Server, rows: list[dict[str, Any]]) -> None:
    """An answer that comes after the restart comes too late."""
    for row in rows:
        if row["kind"] == "permission_request":
            answer = server.call("POST", f"/v1/permissions/{row['payload']['id']}", {"decision": "once"})
            assert (answer.status_code, answer.json()["error"]) == (409, "already_resolved")


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


def test_many_unfinished_turns_are_recovered_before_the_port_opens(
    mortal: Mortal, provider: FakeProvider
) -> None:
    """One of them has text that a checkpoint holds, though nobody watched."""
    provider.behave("fake", tokens=40, hold=20)
    mortal.arm("")
    server = mortal.server
    turns = {}
    for _ in range(20):
        session = server.session()
        url = f"/v1/sessions/{session}/messages"
        answer = server.call("POST", url, {"message": "hi"}, Prefer="respond-async")
        turns[session] = answer.json()["turn_id"]
    tab = server.live(session)
    while len(tab.text.split()) < 20:
        tab.until("text_delta")
    tab.close()
    wait_for_piece(server.home, tab.turn_id)
    server.kill()
    server.start()
    listed: list[dict[str, Any]] = server.get("/v1/sessions")["sessions"]
    assert {row["id"]: row["turn_active"] for row in listed} == dict.fromkeys([*turns, mortal.session], False)
    for number, turn_id in turns.items():
        assert server.evidence(number, turn_id)["payload"]["code"] == "interrupted"
        assert turn_id in server.words(), "a line a turn says that it was recovered"
    evidence = server.evidence(session, tab.turn_id)
    assert (evidence["kind"], evidence["payload"]["final"]) == ("pending_state", True)
    assert evidence["payload"]["text"] == tab.text
    item = server.read(session)["items"][-1]
    assert (item["kind"], item["code"], item["text"]) == ("partial", "interrupted", tab.text)
    assert [row["status"] for row in server.turn(session, tab.turn_id)["attempts"]] == ["error"]


def wait_for_piece(home: Path, turn_id: str) -> None:
    """Until the database holds all twenty pieces of the turn's text."""

    def saved() -> bool:
        query = "SELECT text FROM pending_states WHERE turn_id = ? ORDER BY number"
        with closing(sqlite3.connect(home / "timothy.db")) as connection:
            return "t19" in "".join(text for (text,) in connection.execute(query, (turn_id,)))

    eventually(saved)
