"""How long a start takes after a crash: many sessions, many turns unfinished, one real server start."""

import argparse
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bench_report import Report
from bench_servers import Product

from timothy import database, schema
from timothy.eventlog.records import AnyOrder, AppendRows, BeginTurn, CreateSession, EndTurn, Piece, Row
from timothy.eventlog.store import Writer
from timothy.moment import stamp

START_MOST_S = 5.0
BATCH = 200
PIECES = 20
PIECE = "words of an answer that was saved as it grew " * 5
SAME: dict[str, Any] = {"usage": None, "cost": None, "provider": "bench", "model": "bench"}


def main() -> None:
    """Fill, start, print, and exit with 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--unfinished", type=int, default=1_000, help="turns that a crash cut")
    given = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="timothy-bench-") as folder:
        home = Path(folder)
        fill(home, given.sessions, 0)
        idle = start(home)  # what a start costs with nothing to recover
        fill(home, given.unfinished, given.unfinished)
        recovery = start(home)
        check(home, given.unfinished)
    report.title(f"recovery: {given.sessions:,} sessions and {given.unfinished:,} unfinished turns")
    for name, seconds in (("a start with nothing to recover", idle), ("a start that recovers", recovery)):
        report.figure(name, seconds[0], "s")
        report.figure("    its processor time", seconds[1], "s")
    report.at_most("recovery: from the start to the open port, s", recovery[0], START_MOST_S)
    sys.exit(report.verdict())


def fill(home: Path, sessions: int, unfinished: int) -> None:
    """So many sessions with one turn each; that many of the turns have no end, but saved text."""
    schema.migrate(home / database.FILE_NAME)
    writer = Writer(database.open_database(home / database.FILE_NAME))
    for first in range(0, sessions, BATCH):
        numbers = range(first, min(first + BATCH, sessions))
        _commit(writer, [order for number in numbers for order in _session(number >= unfinished)])
    writer.close()


def _session(ended: bool) -> list[AnyOrder]:
    ids: dict[str, Any] = {"session_id": str(uuid.uuid4()), "turn_id": str(uuid.uuid4())}
    orders: list[AnyOrder] = [
        CreateSession(append_id=_id(), session_id=ids["session_id"], title="benchmark"),
        BeginTurn(append_id=_id(), **ids, mode="new", started_at=stamp(), payload={"text": "Go on."}),
    ]
    if not ended:
        pieces = [Piece(number, PIECE, "", "bench", "bench") for number in range(1, PIECES + 1)]
        return [*orders, *(AppendRows(append_id=_id(), **ids, rows=(), piece=piece) for piece in pieces)]
    rows = (Row("assistant_turn", {"text": PIECE, "finish_reason": "stop", "duration_ms": 1, **SAME}),)
    end = EndTurn(append_id=_id(), **ids, rows=rows, outcome="completed", code=None, message=None, **SAME)
    return [*orders, end]


def _id() -> str:
    return str(uuid.uuid4())


def _commit(writer: Writer, orders: Sequence[AnyOrder]) -> None:
    refused = [verdict for verdict in writer.commit(orders) if not hasattr(verdict, "seq")]
    if refused:
        raise RuntimeError(f"the log refused what the benchmark writes: {refused[0]}")


def start(home: Path) -> tuple[float, float]:
    """Seconds, and processor seconds, from the start of the server's process to its open port."""
    began = time.monotonic()
    with Product(None, home).process as process:
        return time.monotonic() - began, process.processor_s()


def check(home: Path, unfinished: int) -> None:
    """Raises RuntimeError unless every unfinished turn has its evidence, with all the text that was saved."""
    query = "SELECT COUNT(*) FROM session_events WHERE kind = 'pending_state' AND payload LIKE ?"
    with closing(sqlite3.connect(home / database.FILE_NAME)) as connection:
        (found,) = connection.execute(query, (f"%{PIECE * PIECES}%",)).fetchone()
        (open_turns,) = connection.execute("SELECT COUNT(*) FROM turns WHERE state <> 'ended'").fetchone()
    if (found, open_turns) != (unfinished, 0):
        raise RuntimeError(f"{found} of {unfinished} turns were recovered, {open_turns} are open")


if __name__ == "__main__":
    main()
