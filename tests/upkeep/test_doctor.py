"""The doctor finds every broken promise by name, and nothing in a sound log."""

import hashlib
import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.gateway.conftest import ANSWER, TOKEN, FakeChain, GatewayServer
from tests.upkeep.conftest import SESSION, TURN, attach, begin, end, fresh, write
from timothy.cli import main
from timothy.database import FILE_NAME
from timothy.eventlog import files
from timothy.eventlog.records import AppendRows, Row
from timothy.events import AttemptEnded
from timothy.upkeep import doctor as examination
from timothy.upkeep.doctor import Finding, NoDatabase, examine
from timothy.upkeep.promises import CHECKS

OTHER = "33333333-3333-4333-8333-333333333333"

COLUMNS = "session_events (session_id, seq, turn_id, kind, payload, created_at)"
# How somebody could break each promise, past the triggers that guard it.
BREAKS = {
    "seq_gapless": f"DELETE FROM session_events WHERE session_id = '{SESSION}' AND seq = 1",
    "session_of_event": "DELETE FROM sessions",
    "session_of_turn": "DELETE FROM sessions",
    "evidence_once": f"DELETE FROM session_events WHERE turn_id = '{TURN}' AND kind = 'assistant_turn'",
    "evidence_of_running_turn": f"UPDATE turns SET state = 'running' WHERE id = '{TURN}'",
    "evidence_last": f"""INSERT INTO {COLUMNS}
        SELECT session_id, 9, turn_id, 'failover', '{{}}', '' FROM session_events WHERE turn_id = '{TURN}'
        AND kind = 'assistant_turn'""",
    "turn_of_event": f"UPDATE session_events SET turn_id = '{OTHER}' WHERE kind = 'tool_execution'",
    "turn_in_its_session": f"UPDATE turns SET session_id = '{OTHER}'",
    "no_interleaving": f"UPDATE session_events SET turn_id = '{OTHER}' WHERE kind = 'tool_execution'",
    "outcome_known": "UPDATE turns SET outcome = NULL",
    "outcome_fits_evidence": "UPDATE turns SET outcome = 'stopped'",
    "message_of_turn": "UPDATE turns SET user_seq = 1",
    "checkpoints_end": f"""INSERT INTO pending_states (turn_id, number, text, reasoning, saved_at)
        VALUES ('{TURN}', 1, 'x', '', '')""",
    "tools_end": f"""INSERT INTO tool_starts (turn_id, call_id, name, input)
        VALUES ('{TURN}', 'c1', 'calculate', '{{}}')""",
    "tool_execution_once": f"""INSERT INTO {COLUMNS}
        SELECT session_id, 9, '{TURN}', kind, payload, '' FROM session_events
        WHERE kind = 'tool_execution'""",
    "tool_execution_whole": """UPDATE session_events SET payload = json_remove(payload, '$.status')
        WHERE kind = 'tool_execution'""",
    "tool_execution_of_call": f"""INSERT INTO {COLUMNS}
        VALUES ('{SESSION}', 9, '{TURN}', 'permission_request', '{{"id": "p", "call_id": "c9"}}', '')""",
    "tool_execution_allowed": f"""INSERT INTO {COLUMNS} VALUES ('{SESSION}', 9, '{TURN}',
        'permission_request', '{{"id": "p", "call_id": "c1", "tool": "calculate"}}', '')""",
    "permission_asked_for": f"""INSERT INTO {COLUMNS}
        VALUES ('{SESSION}', 9, '{TURN}', 'permission_resolved', '{{"id": "p", "decision": "once"}}', '')""",
    "permission_resolved": f"""INSERT INTO {COLUMNS}
        VALUES ('{SESSION}', 9, '{TURN}', 'permission_request', '{{"id": "p"}}', '')""",
    "ledger_of_turn": f"""INSERT INTO attempts
        (session_id, turn_id, provider, model, status, started_at, append_id)
        VALUES ('{SESSION}', '{OTHER}', 'p', 'm', 'ok', '', 'a')""",
    "ledger_in_its_session": f"""INSERT INTO attempts
        (session_id, turn_id, provider, model, status, started_at, append_id)
        VALUES ('{OTHER}', '{TURN}', 'p', 'm', 'ok', '', 'a')""",
    "ledger_status": f"""INSERT INTO attempts
        (session_id, turn_id, provider, model, status, started_at, append_id)
        VALUES ('{SESSION}', '{TURN}', 'p', 'm', 'error', '', 'a')""",
    "ledger_names_who_answered": "UPDATE turns SET request_id = 'r', provider = 'p', model = 'm'",
    "ledger_of_answer": "UPDATE turns SET request_id = 'r'",
    "payload_is_json": "UPDATE session_events SET payload = '{' WHERE kind = 'user_message'",
}


def vandalise(home: Path, statement: str) -> None:
    connection = sqlite3.connect(home / FILE_NAME, isolation_level=None)
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    assert connection.execute(statement).rowcount
    connection.close()


def test_a_sound_log_has_no_findings(home: Path) -> None:
    assert examine(home) == []


def test_every_promise_can_be_broken_here() -> None:
    assert set(BREAKS) == set(CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_a_broken_promise_is_named_with_its_row(home: Path, check: str) -> None:
    vandalise(home, BREAKS[check])
    found = [finding for finding in examine(home) if finding.check == check]
    assert found
    assert all(finding.level == "broken" and finding.row and finding.message for finding in found)


def asked(turn_id: str, decision: str, status: str, ran: str = "run_command") -> list[Row]:
    """A call that a person was asked about, and what came of it."""
    about = {"id": f"p-{turn_id}", "call_id": "c1", "tool": "run_command", "input": {}}
    execution = {"call_id": "c1", "name": ran, "input": {}, "status": status, "result": "", "duration_ms": 1}
    return [
        Row("permission_request", about),
        Row("permission_resolved", {"id": about["id"], "decision": decision}),
        Row("tool_execution", execution),
    ]


@pytest.mark.parametrize(
    ("decision", "status", "ran", "sound"),
    [
        ("once", "ok", "run_command", True),
        ("session", "error", "run_command", True),
        ("deny", "denied", "run_command", True),
        ("timeout", "denied", "run_command", True),
        ("cancelled", "cancelled", "run_command", True),
        ("deny", "ok", "run_command", False),
        ("timeout", "error", "run_command", False),
        ("once", "ok", "write_file", False),
    ],
)
def test_a_tool_ran_as_a_person_allowed(
    home: Path, decision: str, status: str, ran: str, sound: bool
) -> None:
    rows = tuple(asked(OTHER, decision, status, ran))
    ids = {"session_id": SESSION, "turn_id": OTHER}
    attempt = AttemptEnded("p", "m", "ok", None, 1, 2, None, 0.5, 3, 4, "2026-01-31T12:00:00.000Z")
    answer = Row("assistant_turn", {"text": "done", "finish_reason": "stop"})
    ending = msgspec.structs.replace(
        end(OTHER, answer, "completed"), provider="p", model="m", attempt=attempt
    )
    begun = msgspec.structs.replace(begin(OTHER), request_id="r")
    write(home, begun, AppendRows(append_id=fresh(), rows=rows, **ids), ending)
    assert [finding.check for finding in examine(home)] == ([] if sound else ["tool_execution_allowed"])


@pytest.mark.parametrize("kind", ["tool_execution", "permission_request", "user_message"])
def test_a_payload_that_is_no_json_hides_no_other_finding(home: Path, kind: str) -> None:
    write(home, begin(OTHER), end(OTHER))
    vandalise(home, f"UPDATE turns SET outcome = NULL WHERE id = '{OTHER}'")
    row = "UPDATE session_events SET kind = '{}', payload = '{{' WHERE seq = 4"
    vandalise(home, row.format(kind))
    found = {(finding.check, finding.row) for finding in examine(home)}
    assert {("payload_is_json", f"session {SESSION} seq 4"), ("outcome_known", f"turn {OTHER}")} <= found


def test_an_attached_file_that_is_gone_is_named_by_its_message(home: Path) -> None:
    gone, there = attach(home, "gone", "there")
    (files.folder(home) / gone).unlink()
    (found,) = examine(home)
    assert (found.check, found.level) == ("attached_file", "broken")
    assert found.row == f"session {SESSION} seq 6" and gone in found.message and there not in found.message


def test_files_that_no_session_names_are_counted(home: Path) -> None:
    attach(home, "named")
    for content in (b"1", b"22"):
        files.put(home, hashlib.sha256(content).hexdigest(), [content])
    (found,) = examine(home)
    assert (found.check, found.level, found.row) == ("forgotten_files", "notice", str(files.folder(home)))
    assert "2 files (3 bytes)" in found.message


@pytest.mark.usefixtures("impatient")
def test_a_wal_that_has_grown_and_a_disk_that_is_nearly_full_are_notices(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = sqlite3.connect(home / FILE_NAME)
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT * FROM turns").fetchall()  # keeps the WAL from being folded in
    attach(home)
    monkeypatch.setattr(examination, "WAL_WARNING_BYTES", 1)
    monkeypatch.setattr(examination, "DISK_WARNING_BYTES", 1 << 80)
    found = examine(home)
    reader.close()
    assert [(finding.check, finding.level) for finding in found] == [
        ("wal_size", "notice"),
        ("free_disk", "notice"),
    ]


def test_an_unfinished_turn_is_a_notice_and_no_breach(home: Path) -> None:
    write(home, begin(OTHER))
    message = "it runs now, or the next start will end it as interrupted"
    assert examine(home) == [Finding("unfinished", "notice", f"turn {OTHER}", message)]


def test_a_damaged_file_is_named(home: Path) -> None:
    path = home / FILE_NAME
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    assert any(finding.level == "broken" for finding in examine(home))


def test_no_database_is_not_a_healthy_one(tmp_path: Path) -> None:
    with pytest.raises(NoDatabase, match=str(tmp_path)):
        examine(tmp_path)


@pytest.mark.parametrize(
    ("statement", "status"), [("", 0), (BREAKS["outcome_known"], 1)], ids=["healthy", "broken"]
)
def test_the_exit_status_tells_how_it_is(home: Path, statement: str, status: int) -> None:
    if statement:
        vandalise(home, statement)
    ran = CliRunner().invoke(main, ["doctor", "--home", str(home), "--json"])
    assert ran.exit_code == status
    assert json.loads(ran.stdout)["healthy"] == (status == 0)


@pytest.mark.parametrize(("steps", "status"), [('{"text": "blue"}', 0), ('{"cut": true}', 1)])
def test_providers_are_asked_and_tell_in_json_too(home: Path, steps: str, status: int) -> None:
    (home / "demo.json").write_text(f'{{"turns": [[{steps}]]}}')
    entry = '[[providers]]\nname = "demo"\ndriver = "scripted"\nscript = "demo.json"\n'
    (home / "timothy.toml").write_text(entry)
    ran = CliRunner().invoke(main, ["doctor", "--home", str(home), "--json", "--providers"])
    (asked,) = json.loads(ran.stdout)["providers"]
    assert (asked["provider"], asked["ok"], ran.exit_code) == ("demo", status == 0, status)
    ran = CliRunner().invoke(main, ["doctor", "--home", str(home), "--providers"])
    assert (("ok      demo" in ran.stdout), ran.exit_code) == (status == 0, status)


@pytest.mark.parametrize(("steps", "status"), [('{"text": "blue"}', 0), ('{"cut": true}', 1)])
def test_providers_are_asked_before_there_is_a_database(tmp_path: Path, steps: str, status: int) -> None:
    (tmp_path / "demo.json").write_text(f'{{"turns": [[{steps}]]}}')
    entry = '[[providers]]\nname = "demo"\ndriver = "scripted"\nscript = "demo.json"\n'
    (tmp_path / "timothy.toml").write_text(entry)
    ran = CliRunner().invoke(main, ["doctor", "--home", str(tmp_path), "--json", "--providers"])
    told = json.loads(ran.stdout)
    assert (told["providers"][0]["ok"], ran.exit_code) == (status == 0, status)
    assert [(f["check"], f["level"]) for f in told["findings"]] == [("database", "notice")]
    ran = CliRunner().invoke(main, ["doctor", "--home", str(tmp_path), "--providers"])
    assert "healthy" not in ran.stdout and "no database" in ran.stdout
    assert not (tmp_path / "timothy.db").exists()


def test_with_a_separate_gateway_its_providers_are_asked_and_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GatewayServer(FakeChain([ANSWER]).gateway) as server:
        monkeypatch.setenv("GATEWAY_URL", server.url)
        monkeypatch.setenv("TIMOTHY_GATEWAY_TOKEN", TOKEN)
        ran = CliRunner().invoke(main, ["doctor", "--home", str(tmp_path), "--providers"])
        assert (f"the gateway at {server.url}" in ran.stdout, "ok      a" in ran.stdout) == (True, True)
        assert ran.exit_code == 0
        ran = CliRunner().invoke(main, ["doctor", "--home", str(tmp_path), "--providers", "--json"])
    told = json.loads(ran.stdout)
    assert (told["gateway"], [asked["provider"] for asked in told["providers"]]) == (server.url, ["a"])
    ran = CliRunner().invoke(main, ["doctor", "--home", str(tmp_path), "--providers"])
    assert (ran.exit_code, "correct GATEWAY_URL" in ran.stdout) == (1, True)


def test_nothing_to_check_is_status_2(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["doctor", "--home", str(tmp_path)])
    assert (ran.exit_code, "no database" in ran.stderr) == (2, True)


def test_a_tool_server_that_does_not_start_is_named_and_the_log_is_healthy_all_the_same(home: Path) -> None:
    (home / "timothy.toml").write_text('[[mcp]]\nname = "gone"\ncommand = "no-such-program-anywhere"\n')
    ran = CliRunner().invoke(main, ["doctor", "--home", str(home), "--json"])
    told = json.loads(ran.stdout)
    assert (ran.exit_code, told["healthy"]) == (0, True)
    assert [(f["check"], f["level"], f["row"]) for f in told["findings"]] == [
        ("tool_server", "notice", "gone")
    ]
    assert "no-such-program-anywhere" in told["findings"][0]["message"]


def test_a_wrong_configuration_is_a_notice_and_the_log_is_still_checked(home: Path) -> None:
    (home / "timothy.toml").write_text("[turn]\nceiling = 3\n")
    told = json.loads(CliRunner().invoke(main, ["doctor", "--home", str(home), "--json"]).stdout)
    assert [(f["check"], f["level"]) for f in told["findings"]] == [("configuration", "notice")]
