#!/usr/bin/env python3
"""Prove on a database file, and on what clients saw, that no turn was lost, doubled or left open.

    scripts/check_log.py HOME/timothy.db [HISTORIES.json]

It shares no code with the product: it reads the file's tables and nothing else. Run it when no turn runs.
Exit status: 0 all rules hold, 1 a rule is broken (each breach on a line), 2 it cannot check.

The histories, all lists optional; times are seconds since 1970:

    {"kills": [TIME], "ended": TIME, "full": [[TIME, TIME]],        from when to when the disk was full
     "jumps": [[TIME, OFFSET]],                     the server's clock is OFFSET seconds ahead from then on
     "longest_s": SECONDS,                                                  no turn can have taken longer
     "patience": {CODE or "permission": SECONDS},          nobody gives up with that code before that long
     "sends": [{"session_id", "turn_id", "key", "message"}],                 acknowledged by 200 or 202
     "views": [{"session_id", "turn_id", "text", "marks": [[TIME, LENGTH]],  LENGTH of text shown by then
                "terminals": ["done" or the error's code], "tools": [[CALL_ID, STATUS]],
                "parks": [[DECISION, SECONDS]]}],                    how long a permission was seen open
     "probes": [{"session_id", "outcome", "turn_active"}]}                   a send to each session at the end
"""

import argparse
import contextlib
import json
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

EVIDENCE = ("assistant_turn", "pending_state", "turn_failed")
CHECKPOINT_S = 2.0
# A turn may be stopped in the pause after such an answer, before the next try.
TRIED_AGAIN = ("overloaded", "provider_error", "rate_limited")
Row = dict[str, Any]


class Log:
    """The database's rows, read in one transaction; `payload` is decoded."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        self.integrity = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        self.sessions = _table(connection, "SELECT * FROM sessions")
        self.turns = {row["id"]: row for row in _table(connection, "SELECT * FROM turns ORDER BY started_at")}
        self.rows = _table(connection, "SELECT * FROM session_events ORDER BY session_id, seq")
        self.attempts = _table(connection, "SELECT * FROM attempts ORDER BY id")
        self.pieces = _table(connection, "SELECT * FROM pending_states")
        self.tool_starts = _table(connection, "SELECT * FROM tool_starts")
        for row in self.rows:
            row["payload"] = json.loads(row["payload"])
        self.by_turn: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            if row["turn_id"] is not None:
                self.by_turn[row["turn_id"]].append(row)

    def evidence(self, turn_id: str) -> Row | None:
        """The turn's first evidence row."""
        return next((row for row in self.by_turn[turn_id] if row["kind"] in EVIDENCE), None)


def _table(connection: sqlite3.Connection, query: str) -> list[Row]:
    return [dict(row) for row in connection.execute(query)]


def the_file_is_sound(log: Log, told: Row) -> Iterator[str]:
    if log.integrity != ["ok"]:
        yield f"the database is damaged: {'; '.join(log.integrity[:5])}"


def every_turn_ended_with_one_evidence_as_its_last_row(log: Log, told: Row) -> Iterator[str]:
    for turn_id, turn in log.turns.items():
        kinds = [row["kind"] for row in log.by_turn[turn_id]]
        count = sum(kind in EVIDENCE for kind in kinds)
        if count != 1:
            yield f"turn {turn_id} has {count} rows of evidence: {kinds}"
        elif kinds[-1] not in EVIDENCE:
            yield f"turn {turn_id} goes on after its evidence: {kinds}"
        if turn["state"] != "ended" or turn["outcome"] is None:
            yield f"turn {turn_id} was left {turn['state']}, outcome {turn['outcome']}"


def every_row_belongs_to_a_session_and_a_turn_that_exist(log: Log, told: Row) -> Iterator[str]:
    sessions = {row["id"] for row in log.sessions}
    for row in log.rows:
        if row["session_id"] not in sessions:
            yield f"row {row['seq']} belongs to session {row['session_id']}, which does not exist"
    for turn_id, rows in log.by_turn.items():
        owner = log.turns.get(turn_id, {}).get("session_id")
        if {row["session_id"] for row in rows} != {owner}:
            yield f"the rows of turn {turn_id} lie outside its session {owner}"


def seqs_have_no_gaps(log: Log, told: Row) -> Iterator[str]:
    for session_id, rows in groupby(log.rows, key=lambda row: row["session_id"]):
        seqs = [row["seq"] for row in rows]
        if seqs != list(range(1, len(seqs) + 1)):
            yield f"session {session_id} does not count 1, 2, 3 ...: {seqs[:20]}"


def no_turn_lies_inside_another(log: Log, told: Row) -> Iterator[str]:
    for session_id, rows in groupby(log.rows, key=lambda row: row["session_id"]):
        runs = [turn for turn, _ in groupby(row["turn_id"] for row in rows if row["turn_id"] is not None)]
        for turn, count in Counter(runs).items():
            if count > 1:
                yield f"session {session_id}: the rows of turn {turn} are split by another turn's"


def the_evidence_says_what_the_turn_says(log: Log, told: Row) -> Iterator[str]:
    for turn_id, turn in log.turns.items():
        evidence = log.evidence(turn_id)
        if evidence is not None and not _agree(turn, evidence["kind"], evidence["payload"]):
            told_by_turn = {name: turn[name] for name in ("outcome", "code")}
            yield f"turn {turn_id} is {told_by_turn}, its evidence {evidence['kind']} {evidence['payload']}"


def _agree(turn: Row, kind: str, payload: Row) -> bool:
    outcome, code = turn["outcome"], payload.get("code")
    if kind == "assistant_turn":
        return bool(outcome == ("incomplete" if payload.get("incomplete") else "completed"))
    if kind == "pending_state" and not (payload["text"] and payload["final"] is True):
        return False
    named = {"stopped": "stopped", "interrupted": "interrupted", "server_shutdown": "interrupted"}
    return bool(code and code == turn["code"] and outcome == named.get(code, "failed"))


def nothing_running_is_left_over(log: Log, told: Row) -> Iterator[str]:
    for name, rows in (("checkpoint", log.pieces), ("tool start", log.tool_starts)):
        for turn_id in {row["turn_id"] for row in rows}:
            yield f"a {name} of turn {turn_id} was left behind"


def nothing_acknowledged_is_lost(log: Log, told: Row) -> Iterator[str]:
    for send in told["sends"]:
        turn = log.turns.get(send["turn_id"])
        if turn is None or turn["session_id"] != send["session_id"]:
            yield f"send {send['key']} was acknowledged as {send['turn_id']}, no turn of its session"
        elif send["message"] is not None:
            said = [row for row in log.by_turn[turn["id"]] if row["kind"] == "user_message"]
            if [row["payload"]["text"] for row in said] != [send["message"]]:
                yield f"turn {turn['id']} does not hold its message {send['message']!r} once"


def one_key_is_one_turn(log: Log, told: Row) -> Iterator[str]:
    turns_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for send in told["sends"]:
        turns_of[send["session_id"], send["key"]].add(send["turn_id"])
    for turn in log.turns.values():
        if turn["idempotency_key"] is not None:
            turns_of[turn["session_id"], turn["idempotency_key"]].add(turn["id"])
    for (session_id, key), turns in turns_of.items():
        if len(turns) > 1:
            yield f"session {session_id}: key {key} began {len(turns)} turns: {sorted(turns)}"


def text_that_was_shown_is_kept(log: Log, told: Row) -> Iterator[str]:
    """Whole, but for turns that a kill ended: there, what was shown 2 s before the kill and earlier."""
    for view in told["views"]:
        turn, evidence = log.turns.get(view["turn_id"]), log.evidence(view["turn_id"])
        if turn is None or evidence is None:
            yield f"turn {view['turn_id']} was seen, and left nothing"
            continue
        kept, shown = evidence["payload"].get("text", ""), view["text"]
        length = len(shown)
        if evidence["payload"].get("code") == "interrupted":
            length = _shown_before_the_kill(view, told, turn)
        if not kept.startswith(shown[:length]):
            yield f"turn {view['turn_id']} showed {shown[:length]!r:.200}, and kept {kept!r:.200}"
        elif not (kept.startswith(shown) or shown.startswith(kept)):
            yield f"turn {view['turn_id']} showed another text than it kept: {shown!r:.200}, {kept!r:.200}"


def _shown_before_the_kill(view: Row, told: Row, turn: Row) -> int:
    """How many characters the viewer had when the checkpoint interval before the turn's kill began.

    Nothing can be saved while the disk is full: if the kill came then, the interval before that counts.
    """
    started = _in_real_time(datetime.fromisoformat(turn["started_at"]).timestamp(), told)
    kill = min((time for time in told["kills"] if time >= started), default=float("inf"))
    due = min([kill, *(begin for begin, end in told["full"] if begin <= kill <= end + CHECKPOINT_S)])
    return max((length for time, length in view["marks"] if time <= due - CHECKPOINT_S), default=0)


def _in_real_time(moment: float, told: Row) -> float:
    """What the server's clock showed, as the harness's clock had it; the jumps are longer than the run."""
    until: float = told["ended"]
    jumps: list[tuple[float, float]] = [(0.0, 0.0), *told["jumps"]]
    for time, offset in reversed(jumps):
        if time - 1 <= moment - offset <= until + 1:
            return moment - offset
        until = time
    return moment


def a_viewer_saw_the_end_that_the_log_tells(log: Log, told: Row) -> Iterator[str]:
    for view in told["views"]:
        turn = log.turns.get(view["turn_id"], {})
        ends = {"completed": "done", "incomplete": "done"}
        real = ends.get(turn.get("outcome") or "", turn.get("code"))
        if view["terminals"] not in ([], [real]):
            yield f"a viewer of turn {view['turn_id']} saw {view['terminals']}, the log says {real}"


def the_ledger_matches_the_turns(log: Log, told: Row) -> Iterator[str]:
    last: dict[str, Row] = {}
    answered = set()  # a completed turn may have one attempt more after its answer: for the title
    for attempt in log.attempts:
        turn = log.turns.get(attempt["turn_id"])
        if turn is None or turn["session_id"] != attempt["session_id"]:
            yield f"attempt {attempt['id']} belongs to turn {attempt['turn_id']}, which is not in its session"
        last[attempt["turn_id"]] = attempt
        if attempt["status"] == "ok":
            answered.add(attempt["turn_id"])
    made = {row["id"]: row["created_at"] for row in log.sessions}
    for turn_id, turn in log.turns.items():
        if turn["started_at"] < made.get(turn["session_id"], ""):
            continue  # copied with a branch: it ran elsewhere
        if turn["outcome"] == "completed" and turn_id not in answered:
            yield f"turn {turn_id} completed, its last attempt is {last.get(turn_id)}"
    for attempt in last.values():
        stopped = log.turns.get(attempt["turn_id"], {}).get("outcome") == "stopped"
        if stopped and attempt["status"] == "error" and attempt["code"] not in TRIED_AGAIN:
            yield f"turn {attempt['turn_id']} was stopped, and booked as the provider's failure: {attempt}"


def tools_match_their_calls(log: Log, told: Row) -> Iterator[str]:
    ran: dict[tuple[str, str], str] = {}
    for row in log.rows:
        if row["kind"] == "tool_execution" and row["turn_id"] is not None:
            call = (row["turn_id"], row["payload"]["call_id"])
            if call in ran:
                yield f"turn {call[0]}: call {call[1]} was executed twice"
            ran[call] = row["payload"]["status"]
    for view in told["views"]:
        for call_id, status in view["tools"]:
            logged = ran.get((view["turn_id"], call_id))
            if logged != status:
                yield f"turn {view['turn_id']}: call {call_id} was seen {status}, and logged {logged}"


def durations_are_those_of_a_steady_clock(log: Log, told: Row) -> Iterator[str]:
    rows = [(row["turn_id"], row["payload"].get("duration_ms")) for row in log.rows]
    for name in ("duration_ms", "first_token_ms"):
        rows += [(attempt["turn_id"], attempt[name]) for attempt in log.attempts]
    for turn_id, took in rows:
        if took is not None and not 0 <= took <= told["longest_s"] * 1000:
            yield f"turn {turn_id}: something took {took} ms"


def nobody_gave_up_too_early(log: Log, told: Row) -> Iterator[str]:
    """A viewer that is late sees a permission open for a shorter time: half of it must be left."""
    patience = told["patience"]
    rows = [(row["turn_id"], row["payload"]) for row in log.rows if row["kind"] in EVIDENCE]
    for turn_id, row in [*rows, *((attempt["turn_id"], attempt) for attempt in log.attempts)]:
        code, took = row.get("code"), row.get("duration_ms")
        if code in patience and took is not None and took < patience[code] * 990:
            yield f"turn {turn_id}: {code} after {took} ms"
    for view in told["views"]:
        for decision, seconds in view.get("parks", []):
            if decision == "timeout" and seconds < patience["permission"] / 2:
                yield f"turn {view['turn_id']}: a permission was open for {seconds:.1f} s only"


def no_claim_is_left_over(log: Log, told: Row) -> Iterator[str]:
    for probe in told["probes"]:
        if probe["outcome"] != "completed" or probe["turn_active"]:
            yield f"session {probe['session_id']} does not take a new message: {probe}"


RULES = (
    the_file_is_sound,
    every_turn_ended_with_one_evidence_as_its_last_row,
    every_row_belongs_to_a_session_and_a_turn_that_exist,
    seqs_have_no_gaps,
    no_turn_lies_inside_another,
    the_evidence_says_what_the_turn_says,
    nothing_running_is_left_over,
    nothing_acknowledged_is_lost,
    one_key_is_one_turn,
    text_that_was_shown_is_kept,
    a_viewer_saw_the_end_that_the_log_tells,
    the_ledger_matches_the_turns,
    tools_match_their_calls,
    durations_are_those_of_a_steady_clock,
    nobody_gave_up_too_early,
    no_claim_is_left_over,
)


def breaches(log: Log, histories: Row) -> list[str]:
    """Every breach of every rule, with the rule's name."""
    none: Row = {"kills": [], "full": [], "jumps": [], "sends": [], "views": [], "probes": []}
    told = {**none, "ended": float("inf"), "longest_s": float("inf"), "patience": {}, **histories}
    return [f"{rule.__name__}: {breach}" for rule in RULES for breach in rule(log, told)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a log, and what clients saw of it.")
    parser.add_argument("database", type=Path)
    parser.add_argument("histories", type=Path, nargs="?")
    options = parser.parse_args()
    try:
        histories = json.loads(options.histories.read_text(encoding="utf-8")) if options.histories else {}
        uri = f"{options.database.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            log = Log(connection)
    except (OSError, ValueError, sqlite3.Error) as error:
        print(f"cannot check {options.database}: {error}", file=sys.stderr)
        return 2
    return report(log, breaches(log, histories))


def report(log: Log, found: Iterable[str]) -> int:
    """Print the breaches and a summary; the exit status."""
    lines = list(found)
    for line in lines:
        print(line)
    outcomes = Counter(str(turn["outcome"]) for turn in log.turns.values())
    tools = _counted(log, "tool_execution", "status")
    print(f"tools: {tools}; permissions: {_counted(log, 'permission_resolved', 'decision')}")
    print(
        f"{len(log.sessions)} sessions, {len(log.turns)} turns ("
        f"{', '.join(f'{count} {outcome}' for outcome, count in sorted(outcomes.items()))}), "
        f"{len(log.rows)} rows, {len(log.attempts)} attempts: {len(lines)} breaches"
    )
    return 1 if lines else 0


def _counted(log: Log, kind: str, name: str) -> str:
    counts = Counter(row["payload"][name] for row in log.rows if row["kind"] == kind)
    return ", ".join(f"{count} {value}" for value, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
