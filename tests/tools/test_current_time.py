"""The clock."""

from datetime import UTC, datetime

import pytest

from timothy.cancel import Cancel
from timothy.tools.base import Context, Tool, ToolError


@pytest.mark.parametrize("input", [{}, {"timezone": "UTC"}, {"timezone": "Asia/Kolkata"}])
def test_the_time_is_now_in_any_zone(input: dict[str, str], context: Context, tools: dict[str, Tool]) -> None:
    said = tools["current_time"].run(input, context, Cancel())
    moment = datetime.fromisoformat(said.split(" ")[0])
    assert abs((moment - datetime.now(UTC)).total_seconds()) < 5
    assert f"({moment:%A}, " in said


@pytest.mark.parametrize("name", ["Nowhere", "../etc/passwd", "/etc/passwd", "Europe", "x\0y", "\ud800"])
def test_an_unknown_zone_is_told(name: str, context: Context, tools: dict[str, Tool]) -> None:
    with pytest.raises(ToolError, match="no time zone"):
        tools["current_time"].run({"timezone": name}, context, Cancel())
