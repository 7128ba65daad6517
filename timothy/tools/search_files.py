"""The tool that finds where something stands in the workspace."""

from typing import Any

from timothy.cancel import Cancel
from timothy.tools import files
from timothy.tools.base import Context, Danger
from timothy.tools.process import Limits, ask_child

MAX_MATCHES = 200
LIMITS = Limits(time_s=20, kept_output=1_000_000)


class SearchFiles:
    """Lines that hold a text, or fit a regular expression."""

    name = "search_files"
    description = (
        "Find lines in the workspace's text files that hold a text or, with `pattern`, fit a regular"
        " expression (Python's). Gives path:line: text. Letters' case is ignored unless `exact_case`."
    )
    danger: Danger = "read"
    native = False
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to find", "minLength": 1, "maxLength": 1_000},
            "pattern": {"type": "boolean", "description": "`text` is a regular expression"},
            "exact_case": {"type": "boolean", "description": "A and a are not the same"},
            "folder": {"type": "string", "description": "Only below this folder"},
            "names": {
                "type": "string",
                "description": "Only files with such names, as in *.md",
                "maxLength": 200,
            },
        },
        "required": ["text"],
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return input.get("folder") or "."

    def rationale(self, input: dict[str, Any]) -> str:
        where = input.get("folder") or "the workspace"
        return f"Looks for {input['text'][:200]!r} in the text files of {where}, which changes nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        with files.folder(context.workspace, input.get("folder", "")):  # refused here, without a process
            pass
        request = {"pattern": False, "exact_case": False, "folder": "", "names": "", **input}
        request |= {"root": str(context.workspace), "most": MAX_MATCHES}
        found = ask_child("search", request, cancel, LIMITS)
        if not found["lines"]:
            return f"Nothing found in {found['files']} files."
        more = [f"... and more: only the first {MAX_MATCHES} are listed"] if found["more"] else []
        return "\n".join([*found["lines"], *more])


TOOL = SearchFiles()
