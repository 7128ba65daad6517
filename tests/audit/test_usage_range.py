"""The time range of the usage: every moment is read as the ledger writes it, and none that cannot be."""

import pytest

from timothy.errors import BadRequest
from timothy.ledger import bound


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (None, None),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T07:08", "2026-01-31T07:08:00.000Z"),
        ("2026-01-31T07:08:09Z", "2026-01-31T07:08:09.000Z"),
        ("2026-01-31T07:08:09+00:00", "2026-01-31T07:08:09.000Z"),
        ("2026-01-31T07:08:09.5", "2026-01-31T07:08:09.500Z"),
        ("2026-01-31T07:08:09.123456Z", "2026-01-31T07:08:09.123Z"),
    ],
)
def test_a_moment_is_compared_as_the_ledger_writes_it(text: str | None, written: str | None) -> None:
    assert bound("from", text) == written


@pytest.mark.parametrize(
    "text", ["", "2026-13-01", "2026-02-30", "2026-01-31T25:00Z", "2026-01-31 07:08", "x"]
)
def test_a_moment_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="`from` must be a day"):
        bound("from", text)
