"""The tool that lists what is in the workspace."""

from itertools import islice
from typing import Any

from timothy.cancel import Cancel
from timothy.tools import files
from timothy.tools.base import Context, Danger, ToolError

MAX_ENTRIES = 1_000


class ListFiles:
    """Names and sizes, of one folder or of all below it."""

    name = "list_files"
    description = (
        "List the files and folders of the workspace, or of one folder in it. A line each: the path (a"
        " folder's ends with /, a symbolic link's with @) and a file's size in bytes."
    )
    danger: Danger = "read"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "folder": {"type": "string", "description": "Such as notes; left out: the whole workspace"},
            "deep": {"type": "boolean", "description": "Also what is in the folders below"},
        },
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return input.get("folder") or "."

    def rationale(self, input: dict[str, Any]) -> str:
        return f"Lists the names of files in {input.get('folder') or 'the workspace'}, which changes nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled")
        where = input.get("folder", "")
        found = (files.walk if input.get("deep") else files.entries)(context.workspace, where)
        lines = []
        for entry in islice(found, MAX_ENTRIES + 1):
            if cancel.cancelled:
                raise ToolError("cancelled")
            lines.append(_line(entry))
        if len(lines) > MAX_ENTRIES:
            lines[-1] = f"... and more: only {MAX_ENTRIES} are listed, ask for a folder of these"
        return "\n".join(lines) or "The folder is empty."


def _line(entry: files.Entry) -> str:
    if entry.kind == "file":
        return f"{entry.path}  {entry.size}"
    return entry.path + {"folder": "/", "link": "@"}.get(entry.kind, "")


TOOL = ListFiles()
