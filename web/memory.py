"""`/v1/memory`: the assistant's small notes, for the person to read, change and delete."""

from flask import Blueprint, Response

from timothy.errors import BadRequest, NotFound, StorageUnavailable
from timothy.tools.notes import MAX_CHARACTERS, NotesDamaged, NotesFull
from web.here import system
from web.problems import json_response
from web.requests import field, json_body

memory = Blueprint("memory", __name__)


@memory.errorhandler(NotesFull)
def _full(error: NotesFull) -> Response:
    raise BadRequest(str(error)) from error


@memory.errorhandler(NotesDamaged)
def _damaged(error: NotesDamaged) -> Response:
    raise StorageUnavailable(str(error)) from error


@memory.get("/v1/memory")
def notes() -> Response:
    """All notes, oldest first."""
    here = system()
    return json_response({"notes": here.disk(here.toolbox.notes.all)})


@memory.post("/v1/memory")
def add() -> Response:
    """`{"text"}`: a new note."""
    here = system()
    return json_response(here.disk(here.toolbox.notes.add, _text()), 201)


@memory.patch("/v1/memory/<note_id>")
def edit(note_id: str) -> Response:
    """`{"text"}`: the note says this from now on."""
    here = system()
    note = here.disk(here.toolbox.notes.edit, note_id, _text())
    if note is None:
        raise NotFound(f"no note {note_id[:80]!r}")
    return json_response(note)


@memory.delete("/v1/memory/<note_id>")
def forget(note_id: str) -> Response:
    """The note goes."""
    here = system()
    if not here.disk(here.toolbox.notes.delete, note_id):
        raise NotFound(f"no note {note_id[:80]!r}")
    return Response(status=204)


def _text() -> str:
    return field(json_body(), "text", str, required=True, most=MAX_CHARACTERS) or ""
