"""A conversation may outgrow its model and a page: it goes on, and nothing of it is lost."""

import json
import sqlite3
import time

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server

LONG = "long ago " * 120  # about 300 tokens


def filled(server: Server, provider: FakeProvider, model: str, turns: int = 4) -> str:
    provider.behave(model, Behaviour(text="noted"))
    session = server.session()
    for number in range(turns):
        assert server.send(session, f"{number} {LONG}").rest().end == "done"
    return session


def test_old_history_is_summed_up_before_it_outgrows_the_window(
    servers: Start, provider: FakeProvider
) -> None:
    server = servers(TIMERS + entry(provider, "small", context_window=2000))
    session = filled(server, provider, "small")
    provider.behave("small", Behaviour(text="SUMMARY"), Behaviour(text="goes on"))
    turn = server.send(session, f"last {LONG}").rest()
    assert (turn.end, turn.text) == ("done", "goes on")
    assert "compacting" in [e["code"] for e in turn.events if e["type"] == "status"]
    asked = json.dumps(provider.requests("small")[-1].body["messages"])
    assert "SUMMARY" in asked and "0 long ago" not in asked and "last long ago" in asked
    log = server.events(session)
    rows = [row for row in log if row["kind"] == "compaction_applied"]
    assert [row["payload"]["summary"] for row in rows] == ["SUMMARY"]
    assert [row["payload"]["text"][:1] for row in log if row["kind"] == "user_message"] == list("0123l")
    assert "compaction" in [item["kind"] for item in server.read(session)["items"]]
    assert len(server.turn(session, turn.events[0]["turn_id"])["attempts"]) == 2


def test_a_prompt_that_the_provider_finds_too_long_is_shortened_once(
    server: Server, provider: FakeProvider
) -> None:
    session = filled(server, provider, "fake", turns=2)
    body = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too long"}}
    refusal = Behaviour(status=400, body=json.dumps(body | {"n_prompt_tokens": 900, "n_ctx": 512}))
    provider.behave("fake", refusal, Behaviour(text="SUMMARY"), Behaviour(text="goes on"))
    turn = server.send(session, "and now?").rest()
    assert (turn.end, turn.text) == ("done", "goes on")


def test_a_prompt_that_cannot_be_shorter_fails_with_the_providers_words(
    server: Server, provider: FakeProvider
) -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "message": "921 tokens do not fit into 512"}
    body = json.dumps({"error": {**error, "n_prompt_tokens": 921, "n_ctx": 512}})
    provider.behave("fake", Behaviour(status=400, body=body))
    turn = server.send(server.session(), "only message").rest()
    assert turn.end == "context_overflow"
    message = turn.events[-2]["message"]
    assert "921" in message and "512" in message


@pytest.mark.once
def test_a_session_of_100_000_events_is_read_page_by_page(servers: Start) -> None:
    server = servers(TIMERS, running=False).start()
    session = server.session("long")
    server.terminate()
    rows = (
        (session, seq, "user_message", json.dumps({"text": f"message {seq}"}), "2026-01-31T12:00:00.000Z")
        for seq in range(2, 100_001)
    )
    connection = sqlite3.connect(server.home / "timothy.db")
    connection.execute("DELETE FROM session_events WHERE 0")
    insert = "INSERT INTO session_events (session_id, seq, kind, payload, created_at) VALUES (?, ?, ?, ?, ?)"
    connection.execute("UPDATE sessions SET title = NULL")
    last = connection.execute("SELECT MAX(seq) FROM session_events").fetchone()[0]
    connection.executemany(insert, (row for row in rows if row[1] > last))
    connection.commit()
    connection.close()
    server.start()
    began = time.monotonic()
    newest = server.read(session)
    took = time.monotonic() - began
    assert [item["seq"] for item in newest["items"]] == list(range(99_801, 100_001))
    assert newest["more"] is True and took < 5  # a bound against a scan of it all, not a measurement
    older = server.get(f"/v1/sessions/{session}?before=99801&limit=3")
    assert [item["seq"] for item in older["items"]] == [99_798, 99_799, 99_800]
