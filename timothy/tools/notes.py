"""Small notes that the assistant keeps for the person: one JSON file in the home, replaced whole."""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from timothy.moment import stamp
from timothy.text import honest

MAX_NOTES = 500
MAX_CHARACTERS = 2_000


class Note(msgspec.Struct, frozen=True):
    """One thing to remember; `created_at` is RFC 3339, UTC."""

    id: str
    text: str
    created_at: str


class NotesError(Exception):
    """The notes cannot be had, or not be changed so."""


class NotesFull(NotesError):
    """No further note, or not so long a one, is kept."""


class NotesDamaged(NotesError):
    """The file of notes cannot be read, or not be written."""


class Notes:
    """The notes of one home, in `notes.json`; safe for several threads, loops and processes at once."""

    def __init__(self, home: Path) -> None:
        self._path = home / "notes.json"

    def all(self) -> list[Note]:
        """Every note, oldest first. Raises NotesDamaged."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Note])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise NotesDamaged(f"{self._path}: {error}") from error

    def add(self, text: str) -> Note:
        """Keep `text`; the same text twice is one note. Raises NotesError."""
        note = Note(uuid.uuid4().hex[:8], _fitting(text), stamp())
        with self._changing() as notes:
            for known in notes:
                if known.text == note.text:
                    return known
            if len(notes) >= MAX_NOTES:
                raise NotesFull(f"there are {MAX_NOTES} notes already; delete one first")
            notes.append(note)
        return note

    def edit(self, id: str, text: str) -> Note | None:
        """Give note `id` another text; None when there is no such note. Raises NotesError."""
        text = _fitting(text)
        with self._changing() as notes:
            for place, note in enumerate(notes):
                if note.id == id:
                    notes[place] = msgspec.structs.replace(note, text=text)
                    return notes[place]
        return None

    def delete(self, id: str) -> bool:
        """Forget note `id`; False when there is no such note. Raises NotesDamaged."""
        with self._changing() as notes:
            kept = [note for note in notes if note.id != id]
            found = len(kept) < len(notes)
            notes[:] = kept
        return found

    @contextmanager
    def _changing(self) -> Iterator[list[Note]]:
        """The notes to change in place; written back at the end of the block."""
        with self._locked():
            notes = self.all()
            before = list(notes)
            yield notes
            if notes != before:
                self._write(notes)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # a lock of the system's, not of the thread module's: real threads beside a patched loop come here too
        try:
            lock = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotesDamaged(f"{self._path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, notes: list[Note]) -> None:
        raw = msgspec.json.format(msgspec.json.encode(notes), indent=1)
        beside = self._path.with_suffix(".new")  # under the lock there is only one
        try:
            with open(beside, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        except OSError as error:
            raise NotesDamaged(f"{self._path}: {error.strerror}") from error


def _fitting(text: str) -> str:
    text = honest(text.strip())
    if not text or len(text) > MAX_CHARACTERS:
        raise NotesFull(f"a note has 1 to {MAX_CHARACTERS} characters, this one has {len(text)}")
    return text
