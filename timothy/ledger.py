"""The ledger read as sums: attempts, tokens and money by day, provider, model or session."""

import re
from datetime import datetime
from typing import Any

import peewee

from timothy.database import Attempts
from timothy.errors import BadRequest

_KEYS: dict[str, Any] = {
    "day": peewee.fn.SUBSTR(Attempts.started_at, 1, 10),
    "provider": Attempts.provider,
    "model": Attempts.model,
    "session": Attempts.session_id,
}
GROUPS = tuple(_KEYS)
STATUSES = ("ok", "incomplete", "error", "stopped")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|\+00:00)?)?")


def bound(name: str, text: str | None) -> str | None:
    """An end of the time range, a day or a moment, as the ledger writes it; or None. Raises BadRequest."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text if _MOMENT.fullmatch(text) else "")
    except ValueError as error:
        raise BadRequest(
            f"`{name}` must be a day (2026-01-31) or a moment in UTC, is {text[:80]!r}"
        ) from error
    return text if len(text) == 10 else moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def usage(
    database: peewee.SqliteDatabase, *, group: str, start: str | None = None, end: str | None = None
) -> dict[str, Any]:
    """`{"group", "rows", "total"}` of attempts begun from `start` up to, not with, `end`; a day `end` counts.

    A sum is null where nothing of it is known; `unpriced_attempts` counts those without a cost.
    """
    chosen = _within(start, end)
    rows = list(_sums(_KEYS[group].alias("key"), chosen).group_by(peewee.SQL("1")).dicts().execute(database))
    total = next(iter(_sums(peewee.SQL("NULL").alias("key"), chosen).dicts().execute(database)))
    total.pop("key", None)
    total = {name: _zero(name, value) for name, value in total.items()}
    return {"group": group, "rows": sorted(rows, key=lambda row: str(row["key"])), "total": total}


def _within(start: str | None, end: str | None) -> Any:
    chosen = Attempts.started_at >= (start or "")
    if end is not None:
        chosen &= Attempts.started_at < (f"{end}T24" if len(end) == 10 else end)
    return chosen


def _sums(key: Any, chosen: Any) -> Any:
    """Counts per status, and sums that stay NULL when no attempt told the number."""
    counts = [
        peewee.fn.SUM(peewee.Case(None, [(Attempts.status == status, 1)], 0)).alias(status)
        for status in STATUSES
    ]
    unpriced = peewee.fn.SUM(peewee.Case(None, [(Attempts.cost.is_null(), 1)], 0))
    return Attempts.select(
        key,
        peewee.fn.COUNT(Attempts.id).alias("attempts"),
        *counts,
        peewee.fn.SUM(Attempts.input_tokens).alias("input_tokens"),
        peewee.fn.SUM(Attempts.output_tokens).alias("output_tokens"),
        peewee.fn.SUM(Attempts.cost).alias("cost"),
        unpriced.alias("unpriced_attempts"),
    ).where(chosen)


def _zero(name: str, value: Any) -> Any:
    counted = (*STATUSES, "attempts", "unpriced_attempts")
    return 0 if value is None and name in counted else value


_COLUMNS = ("attempts", *STATUSES, "input_tokens", "output_tokens", "cost")


def table(sums: dict[str, Any], currency: str) -> str:
    """The sums as lines of text; what is unknown is a dash, and a part that has no price is said."""
    head = [sums["group"], *(column.replace("_", " ") for column in _COLUMNS[:-1]), f"cost ({currency})"]
    rows = [*sums["rows"], {**sums["total"], "key": "total"}]
    lines = [head, *([str(row["key"]), *(_cell(row, column) for column in _COLUMNS)] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    if value is None:
        return "-"
    if column == "cost":
        return f"{value:.4f}" + (" + unknown" if row["unpriced_attempts"] else "")
    return f"{value:,}"
