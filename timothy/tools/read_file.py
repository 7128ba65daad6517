"""The tool that reads a text file of the workspace."""

from typing import Any

from timothy.cancel import Cancel
from timothy.tools import files
from timothy.tools.base import Context, Danger, ToolError

MAX_BYTES = 10_000_000
MAX_LINES = 2_000


class ReadFile:
    """Lines of one file, as they are."""

    name = "read_file"
    description = (
        "Read a text file of the workspace, or some of its lines. Paths are relative to the workspace."
    )
    danger: Danger = "read"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Such as notes/today.txt", "minLength": 1},
            "first_line": {"type": "integer", "description": "The first line wanted, from 1", "minimum": 1},
            "lines": {
                "type": "integer",
                "description": f"How many lines at most; {MAX_LINES} when left out",
                "minimum": 1,
                "maximum": MAX_LINES,
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return files.folder_of(input["path"])

    def rationale(self, input: dict[str, Any]) -> str:
        return f"Reads the file {input['path']} in the workspace, which changes nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled")
        text = files.text(files.read(context.workspace, input["path"], MAX_BYTES), input["path"])
        return _some(text, input.get("first_line", 1), input.get("lines", MAX_LINES))


def _some(text: str, first: int, count: int) -> str:
    """The lines from `first` on, and a last line that says so when they are not all."""
    lines = text.split("\n")  # not splitlines, which takes more than a newline for one
    total = len(lines) - (lines[-1] == "")
    if first == 1 and total <= count:
        return text
    if first > total:
        raise ToolError(f"the file has {total} lines")
    last = min(first + count - 1, total)
    return "\n".join(lines[first - 1 : last]) + f"\n[lines {first} to {last} of {total}]"


TOOL = ReadFile()
