"""The tool that writes a file of the workspace, whole or not at all."""

from typing import Any

from timothy.cancel import Cancel
from timothy.tools import files
from timothy.tools.base import Context, Danger, ToolError

MAX_CHARACTERS = 2_000_000


class WriteFile:
    """A new file, or a new content for an old one."""

    name = "write_file"
    description = (
        "Write a text file of the workspace: the whole content, in place of what was there. Missing folders"
        " are made. Paths are relative to the workspace."
    )
    danger: Danger = "write"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Such as notes/today.txt", "minLength": 1},
            "content": {"type": "string", "description": "The whole text", "maxLength": MAX_CHARACTERS},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    }

    def unfit(self, input: dict[str, Any]) -> str | None:
        return files.unfit(input["path"])

    def subject(self, input: dict[str, Any]) -> str:
        return files.folder_of(input["path"])

    def rationale(self, input: dict[str, Any]) -> str:
        return (
            f"Writes {len(input['content'])} characters to the file {input['path']} in the workspace;"
            " what is there now is replaced and cannot be had back."
        )

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled, nothing was written")
        data = files.encoded(input["content"])
        replaced = files.write(context.workspace, input["path"], data)
        return f"{'Replaced' if replaced else 'Made'} {input['path']} ({len(data)} bytes)."


TOOL = WriteFile()
