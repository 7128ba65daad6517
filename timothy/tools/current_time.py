"""The tool that tells the time."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from timothy.cancel import Cancel
from timothy.tools.base import Context, Danger, ToolError


class CurrentTime:
    """Date and time of day, here or in another time zone."""

    name = "current_time"
    description = "The current date, weekday and time of day: the server's, or that of a time zone."
    danger: Danger = "read"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "timezone": {
                "type": "string",
                "description": "An IANA name such as Europe/Berlin; left out: the server's own",
                "maxLength": 100,
            }
        },
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return "the clock"

    def rationale(self, input: dict[str, Any]) -> str:
        return "Reads the clock, which changes nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled")
        now = datetime.now().astimezone(_zone(input["timezone"]) if input.get("timezone") else None)
        return f"{now.isoformat(timespec='seconds')} ({now:%A}, {now.tzname()})"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ToolError(f"there is no time zone {name!r}; names look like Europe/Berlin or UTC") from error


TOOL = CurrentTime()
