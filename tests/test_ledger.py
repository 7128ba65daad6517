"""Sums of the ledger: what is unknown stays unknown."""

import pytest

from timothy import ledger
from timothy.database import Attempts, open_database
from timothy.errors import BadRequest
from timothy.schema import migrate

ROWS = [
    # session, provider, model, status, tokens in and out, cost, started
    ("s1", "a", "m1", "ok", 10, 20, 0.5, "2026-01-30T23:59:59.999Z"),
    ("s1", "a", "m2", "error", None, None, None, "2026-01-31T00:00:00.000Z"),
    ("s2", "b", "m1", "incomplete", 1, None, 0.25, "2026-01-31T12:00:00.000Z"),
    ("s2", "b", "m1", "stopped", None, 2, None, "2026-02-01T00:00:00.000Z"),
]


@pytest.fixture
def database(tmp_path):
    migrate(tmp_path / "timothy.db")
    database = open_database(tmp_path / "timothy.db")
    yield database
    database.close()


@pytest.fixture
def filled(database):
    for number, row in enumerate(ROWS):
        session, provider, model, status, taken, given, cost, started = row
        Attempts.insert(
            session_id=session,
            turn_id="t",
            provider=provider,
            model=model,
            status=status,
            input_tokens=taken,
            output_tokens=given,
            cost=cost,
            started_at=started,
            append_id=str(number),
        ).execute(database)
    return database


def test_an_empty_ledger_has_counts_of_zero_and_unknown_sums(database):
    assert ledger.usage(database, group="day") == {
        "group": "day",
        "rows": [],
        "total": {
            "attempts": 0,
            "ok": 0,
            "incomplete": 0,
            "error": 0,
            "stopped": 0,
            "input_tokens": None,
            "output_tokens": None,
            "cost": None,
            "unpriced_attempts": 0,
        },
    }


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("day", {"2026-01-30": 1, "2026-01-31": 2, "2026-02-01": 1}),
        ("provider", {"a": 2, "b": 2}),
        ("model", {"m1": 3, "m2": 1}),
        ("session", {"s1": 2, "s2": 2}),
    ],
)
def test_attempts_are_grouped(filled, group, expected):
    sums = ledger.usage(filled, group=group)
    assert {row["key"]: row["attempts"] for row in sums["rows"]} == expected
    assert sums["total"]["attempts"] == 4


def test_sums_hold_what_was_told_and_count_what_has_no_price(filled):
    a, b = ledger.usage(filled, group="provider")["rows"]
    assert (a["ok"], a["error"], a["input_tokens"], a["output_tokens"]) == (1, 1, 10, 20)
    assert (a["cost"], a["unpriced_attempts"]) == (0.5, 1)
    assert (b["incomplete"], b["stopped"], b["input_tokens"], b["output_tokens"]) == (1, 1, 1, 2)


def test_a_group_without_any_price_costs_an_unknown_sum_not_zero(filled):
    rows = {row["key"]: row for row in ledger.usage(filled, group="model")["rows"]}
    assert rows["m2"]["cost"] is None
    assert rows["m2"]["input_tokens"] is None


@pytest.mark.parametrize(
    ("start", "end", "count"),
    [
        ("2026-01-31", None, 3),
        (None, "2026-01-31", 3),
        ("2026-01-31", "2026-01-31", 2),
        ("2026-01-31T12:00:00.000Z", None, 2),
        (None, "2026-01-31T12:00:00.000Z", 2),
        ("2027-01-01", None, 0),
    ],
)
def test_a_range_begins_with_its_start_and_a_day_counts_as_an_end(filled, start, end, count):
    assert ledger.usage(filled, group="day", start=start, end=end)["total"]["attempts"] == count


@pytest.mark.parametrize("text", [None, "2026-01-31", "2026-01-31T12:00:00.123Z"])
def test_a_day_or_a_moment_is_a_bound(text):
    assert ledger.bound("from", text) == text


@pytest.mark.parametrize("text", ["", "yesterday", "2026-1-1", "2026-01-31T12:00:00+02:00", "' OR 1"])
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(BadRequest, match="`from` must be a day"):
        ledger.bound("from", text)


def test_the_table_says_what_is_unknown(filled):
    table = ledger.table(ledger.usage(filled, group="model"), "EUR")
    head, m1, m2, total = table.splitlines()
    assert "cost (EUR)" in head
    assert "0.7500 + unknown" in m1 and "0.7500 + unknown" in total
    assert m2.split() == ["m2", "1", "0", "0", "1", "0", "-", "-", "-"]
