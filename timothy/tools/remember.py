"""The tool that keeps a note for later conversations."""

from typing import Any

from timothy.cancel import Cancel
from timothy.tools.base import Context, Danger, ToolError
from timothy.tools.notes import MAX_CHARACTERS, NotesError


class Remember:
    """A new note, or a new text for an old one."""

    name = "remember"
    description = (
        "Keep a small note about the person or their work, for later conversations too. The person can see,"
        " change and delete it in the settings. With `id`, the note of that id gets the new text."
    )
    danger: Danger = "write"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "text": {
                "type": "string",
                "description": "One fact",
                "minLength": 1,
                "maxLength": MAX_CHARACTERS,
            },
            "id": {
                "type": "string",
                "description": "The note to replace, as recall shows it",
                "maxLength": 40,
            },
        },
        "required": ["text"],
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return "notes"

    def rationale(self, input: dict[str, Any]) -> str:
        return (
            f"Keeps the note {input['text'][:200]!r}, which every later conversation can see"
            f"{', in place of note ' + input['id'] if input.get('id') else ''}."
        )

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled, nothing was noted")
        try:
            note = (
                context.notes.edit(input["id"], input["text"])
                if input.get("id")
                else context.notes.add(input["text"])
            )
        except NotesError as error:
            raise ToolError(str(error)) from error
        if note is None:
            raise ToolError(f"there is no note {input['id']!r}")
        return f"Noted, as note {note.id}."


TOOL = Remember()
