"""A home with a log that was written by the product's own writer."""

import uuid
from pathlib import Path

import pytest

from timothy import database
from timothy.database import FILE_NAME, open_database
from timothy.eventlog import attachments
from timothy.eventlog.records import AppendRows, BeginTurn, CreateSession, EndTurn, Row
from timothy.eventlog.store import Writer
from timothy.schema import migrate

SESSION = "11111111-1111-4111-8111-111111111111"
TURN = "22222222-2222-4222-8222-222222222222"
STARTED = "2026-01-31T12:00:00.000Z"


def fresh() -> str:
    return str(uuid.uuid4())


def write(home: Path, *orders: object) -> None:
    """Commit the orders, each accepted."""
    writer = Writer(open_database(home / FILE_NAME))
    for verdict in writer.commit(orders):  # type: ignore[arg-type]
        assert not hasattr(verdict, "code"), verdict
    writer.close()


def begin(turn_id: str = TURN, text: str = "hello", **more: object) -> BeginTurn:
    return BeginTurn(
        append_id=fresh(),
        session_id=SESSION,
        turn_id=turn_id,
        mode="new",
        started_at=STARTED,
        payload={"text": text, **more},
    )


def end(turn_id: str = TURN, row: Row | None = None, outcome: str = "failed") -> EndTurn:
    failed = Row("turn_failed", {"code": "stopped", "message": "stopped by the user", "retryable": True})
    return EndTurn(
        append_id=fresh(),
        session_id=SESSION,
        turn_id=turn_id,
        rows=(row or failed,),
        outcome=outcome,
        code=None,
        message=None,
        usage=None,
        cost=None,
        provider=None,
        model=None,
    )


def attach(home: Path, *contents: str) -> list[str]:
    """A turn whose message has these files; their hashes."""
    given = [attachments.Attachment("a.txt", "text/plain", text=content) for content in contents]
    kept = attachments.keep(home, given)
    turn_id = fresh()
    write(home, begin(turn_id, attachments=kept), end(turn_id))
    return [entry["sha256"] for entry in kept]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that another holds is waited for 50 ms, not a second."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A sound log: one session, one answered turn with a tool."""
    migrate(tmp_path / FILE_NAME)
    tool = {
        "call_id": "c1",
        "name": "calculate",
        "input": {},
        "status": "ok",
        "result": "```\n4",
        "duration_ms": 1,
    }
    answer = Row("assistant_turn", {"text": "**4**", "finish_reason": "stop"})
    write(
        tmp_path,
        CreateSession(append_id=fresh(), session_id=SESSION, title="sums"),
        begin(text="two and two?"),
        AppendRows(append_id=fresh(), session_id=SESSION, turn_id=TURN, rows=(Row("tool_execution", tool),)),
        end(row=answer, outcome="completed"),
    )
    return tmp_path
