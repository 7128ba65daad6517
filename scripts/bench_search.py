"""What is looked up among all sessions: words, a permission; and what an index of words would cost."""

import argparse
import random
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import peewee
from bench_report import Report

from timothy import database, schema
from timothy.eventlog import queries
from timothy.eventlog.records import AnyOrder, BeginTurn, CreateSession, EndTurn, Row
from timothy.eventlog.rows import execute
from timothy.eventlog.store import Writer
from timothy.moment import stamp

WORDS = ["bread", "river", "tea", "plan", "house", "garden", "train", "letter", "music", "winter", "paper"]
SAME: dict[str, Any] = {"usage": None, "cost": None, "provider": "bench", "model": "bench"}
BATCH = 20  # sessions in a commit
SCAN = "SELECT COUNT(*) FROM session_events WHERE payload LIKE '%nowhereatall%'"
INDEX = "CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'trigram')"
FILL = "INSERT INTO words (rowid, text) SELECT id, json_extract(payload, '$.text') FROM session_events"
TEXTS = " WHERE kind IN ('user_message', 'assistant_turn')"


def main() -> None:
    """Fill, look up, print, and exit with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--turns", type=int, default=10, help="in each session")
    given = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="timothy-bench-") as folder:
        file = Path(folder) / database.FILE_NAME
        fill(file, given.sessions, given.turns)
        rows = given.sessions * (2 * given.turns + 1)
        report.title(
            f"search: {given.sessions:,} sessions, {rows:,} rows, {file.stat().st_size / 1e6:.0f} MB"
        )
        look_up(report, file)
        build_index(report, file)
    sys.exit(report.verdict())


def fill(file: Path, sessions: int, turns: int) -> None:
    """A log with so many sessions of so many turns, each a question and a longer answer."""
    schema.migrate(file)
    writer = Writer(database.open_database(file))
    chance = random.Random(1)
    for first in range(0, sessions, BATCH):
        numbers = range(first, min(first + BATCH, sessions))
        writer.commit([order for _ in numbers for order in _session(chance, turns)])
    writer.close()


def _session(chance: random.Random, turns: int) -> list[AnyOrder]:
    session = str(uuid.uuid4())
    orders: list[AnyOrder] = [
        CreateSession(append_id=str(uuid.uuid4()), session_id=session, title="benchmark")
    ]
    for _ in range(turns):
        ids: dict[str, Any] = {"session_id": session, "turn_id": str(uuid.uuid4())}
        question = {"text": " ".join(chance.choices(WORDS, k=20))}
        answer = {
            "text": " ".join(chance.choices(WORDS, k=150)),
            "finish_reason": "stop",
            "duration_ms": 1,
            **SAME,
        }
        begin = BeginTurn(
            append_id=str(uuid.uuid4()), **ids, mode="new", started_at=stamp(), payload=question
        )
        row = Row("assistant_turn", answer)
        end = {**ids, **SAME, "outcome": "completed", "code": None, "message": None}
        orders += [begin, EndTurn(append_id=str(uuid.uuid4()), rows=(row,), **end)]
    return orders


def look_up(report: Report, file: Path) -> None:
    """Each look-up beside one plain walk through all payloads in the same file."""
    with closing(database.open_database(file, read_only=True)) as reader:
        scan = _ms(lambda: execute(reader, SCAN))
        report.figure("a plain walk through all payloads", scan, "ms")
        report.figure("words that many sessions hold", _found(reader, "river tea"), "ms")
        nowhere = _found(reader, "nowhere at all")
        report.pair("words that are nowhere, beside that walk", scan, nowhere, "ms")
        other = _found(reader, "nirgends zu hören")
        report.pair("the same, with letters outside ASCII", scan, other, "ms")
        permission = _ms(lambda: queries.permission(reader, str(uuid.uuid4())))
        report.pair("a permission that is unknown", scan, permission, "ms")
        report.at_most("search: words that are nowhere, x the walk", nowhere / scan, 5)
        report.at_least("search: the walk, x an unknown permission", scan / permission, 10)


def _found(reader: peewee.SqliteDatabase, words: str) -> float:
    return _ms(lambda: queries.sessions(reader, limit=50, search=words))


def _ms(look: Callable[[], object]) -> float:
    """The quickest of three, in milliseconds."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        look()
        took.append((time.perf_counter() - began) * 1000)
    return min(took)


def build_index(report: Report, file: Path) -> None:
    """What a trigram index over the same texts takes: a figure for a decision, not a target."""
    before = file.stat().st_size
    with closing(sqlite3.connect(file)) as connection:
        began = time.perf_counter()
        connection.execute(INDEX)
        connection.execute(FILL + TEXTS)
        connection.commit()
        seconds = time.perf_counter() - began
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    report.pair("the file, without and with an index of words", before / 1e6, file.stat().st_size / 1e6, "MB")
    report.figure("    the time to build that index", seconds, "s")


if __name__ == "__main__":
    main()
