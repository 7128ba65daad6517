"""The tool that looks up the notes kept so far."""

from typing import Any

from timothy.cancel import Cancel
from timothy.tools.base import Context, Danger, ToolError
from timothy.tools.notes import NotesError


class Recall:
    """The notes, or those that hold all of some words."""

    name = "recall"
    description = "The notes kept earlier with remember: all, or those that hold every word of `words`."
    danger: Danger = "read"
    native = True
    schema = {
        "type": "object",
        "properties": {"words": {"type": "string", "description": "Such as birthday Anna", "maxLength": 200}},
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return "notes"

    def rationale(self, input: dict[str, Any]) -> str:
        return "Looks through the assistant's own notes, which changes nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled")
        words = input.get("words", "").casefold().split()
        try:
            kept = context.notes.all()
        except NotesError as error:
            raise ToolError(str(error)) from error
        notes = [note for note in kept if all(word in note.text.casefold() for word in words)]
        if not notes:
            return "There is no such note." if words else "There are no notes yet."
        return "\n".join(f"{note.id} ({note.created_at[:10]}): {note.text}" for note in notes)


TOOL = Recall()
