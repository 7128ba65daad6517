"""The tool that changes a passage of a file, and nothing else in it."""

from typing import Any

from timothy.cancel import Cancel
from timothy.tools import files
from timothy.tools.base import Context, Danger, ToolError
from timothy.tools.read_file import MAX_BYTES


class EditFile:
    """One passage for another; the passage must be there, and be the only one."""

    name = "edit_file"
    description = (
        "Replace a passage of a text file of the workspace. `old` must be exactly what the file holds, and"
        " long enough to be found once; with `every` all its places are changed. Paths are relative to the"
        " workspace."
    )
    danger: Danger = "write"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Such as notes/today.txt", "minLength": 1},
            "old": {"type": "string", "description": "The passage as it is now", "minLength": 1},
            "new": {"type": "string", "description": "The passage as it shall be", "maxLength": 2_000_000},
            "every": {"type": "boolean", "description": "Change every place, not just the only one"},
        },
        "required": ["path", "old", "new"],
        "additionalProperties": False,
    }

    def unfit(self, input: dict[str, Any]) -> str | None:
        return files.unfit(input["path"])

    def subject(self, input: dict[str, Any]) -> str:
        return files.folder_of(input["path"])

    def rationale(self, input: dict[str, Any]) -> str:
        return (
            f"Replaces {len(input['old'])} characters by {len(input['new'])} in the file {input['path']}"
            " in the workspace; what is there now cannot be had back."
        )

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        path = input["path"]
        if cancel.cancelled:
            raise ToolError("cancelled, nothing was changed")
        with files.opened(context.workspace, path, write=True, make=False) as (here, name), files.alone(here):
            with files.plain(here, name) as file:
                before = files.exact_text(file.read(MAX_BYTES + 1), path)
            after, places = _changed(before, input)
            files.replace(here, name, files.encoded(after))
        return f"Changed {path} in {places} place{'s' * (places != 1)}."


def _changed(text: str, input: dict[str, Any]) -> tuple[str, int]:
    """The text after the change, and how many places changed. Raises ToolError."""
    if len(text) > MAX_BYTES:
        raise ToolError(f"the file is larger than {MAX_BYTES} bytes")
    old, new = input["old"], input["new"]
    if old not in text and "\r\n" in text:  # models write plain newlines
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    places = text.count(old)
    if places == 0:
        raise ToolError(
            "the file does not hold the passage `old`; read the file and copy the passage exactly"
        )
    if places > 1 and not input.get("every"):
        raise ToolError(f"the passage `old` is there {places} times; make it longer, or set `every`")
    return text.replace(old, new), places


TOOL = EditFile()
