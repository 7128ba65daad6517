"""Points in time as text."""

import re
from datetime import UTC, datetime, timedelta, timezone

from timothy.moment import in_future, stamp


def test_a_stamp_is_rfc_3339_in_utc_with_milliseconds():
    noon = datetime(2026, 1, 31, 13, 0, 0, 5999, tzinfo=timezone(timedelta(hours=1)))
    assert stamp(noon) == "2026-01-31T12:00:00.005Z"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp())


def test_stamps_sort_as_the_moments_do():
    first = datetime(2026, 1, 31, tzinfo=UTC)
    moments = [first + timedelta(milliseconds=step * 37) for step in range(200)]
    assert sorted(map(stamp, moments)) == list(map(stamp, moments))


def test_the_future_is_ahead_by_that_many_seconds():
    before, there, after = stamp(), in_future(60), stamp()
    read = datetime.fromisoformat(there)
    assert datetime.fromisoformat(before) + timedelta(seconds=60) <= read
    assert read <= datetime.fromisoformat(after) + timedelta(seconds=60, milliseconds=1)
