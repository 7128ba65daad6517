"""Points in time as the log and the wire write them: RFC 3339, UTC, milliseconds."""

from datetime import UTC, datetime, timedelta


def stamp(moment: datetime | None = None) -> str:
    """`moment`, or now, as `2026-01-31T12:00:00.000Z`."""
    moment = (moment or datetime.now(UTC)).astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_future(seconds: float) -> str:
    """The stamp of the moment `seconds` from now."""
    return stamp(datetime.now(UTC) + timedelta(seconds=seconds))
