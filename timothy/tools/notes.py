"""Small notes that the assistant keeps for the person: one JSON file in the home, replaced whole."""

import fcntl
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

MAX_NOTES = 500
MAX_CHARACTERS = 2_000


class Note(msgspec.Struct, frozen=True):
    """One thing to remember; `created_at` is RFC 3339, UTC."""

    id: str
    text: str
    created_at: str


class NotesFull(ValueError):
    """No further note, or not so long a one, is kept."""


class Notes:
    """The notes of one home, in `notes.json`; safe for several threads, loops and processes at once."""

    def __init__(self, home: Path) -> None:
        self._path = home / "notes.json"

    def all(self) -> list[Note]:
        """Every note, oldest first. Raises OSError, or msgspec.MsgspecError when the file was damaged."""
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return []
        return msgspec.json.decode(raw, type=list[Note])

    def add(self, text: str) -> Note:
        """Keep `text`; the same text twice is one note. Raises NotesFull."""
        note = Note(uuid.uuid4().hex[:8], _fitting(text), datetime.now(UTC).isoformat(timespec="seconds"))
        with self._changing() as notes:
            for known in notes:
                if known.text == note.text:
                    return known
            if len(notes) >= MAX_NOTES:
                raise NotesFull(f"there are {MAX_NOTES} notes already; delete one first")
            notes.append(note)
        return note

    def edit(self, id: str, text: str) -> Note | None:
        """Give note `id` another text; None when there is no such note. Raises NotesFull."""
        text = _fitting(text)
        with self._changing() as notes:
            for place, note in enumerate(notes):
                if note.id == id:
                    notes[place] = msgspec.structs.replace(note, text=text)
                    return notes[place]
        return None

    def delete(self, id: str) -> bool:
        """Forget note `id`; False when there is no such note."""
        with self._changing() as notes:
            kept = [note for note in notes if note.id != id]
            found = len(kept) < len(notes)
            notes[:] = kept
        return found

    @contextmanager
    def _changing(self) -> Iterator[list[Note]]:
        """The notes to change in place; written back at the end of the block."""
        # a lock of the system's, not of the thread module's: real threads beside a patched loop come here too
        lock = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            notes = self.all()
            yield notes
            self._write(notes)
        finally:
            os.close(lock)

    def _write(self, notes: list[Note]) -> None:
        raw = msgspec.json.format(msgspec.json.encode(notes), indent=1)
        with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=".notes-", delete=False) as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self._path)


def _fitting(text: str) -> str:
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS:
        raise NotesFull(f"a note has 1 to {MAX_CHARACTERS} characters, this one has {len(text)}")
    return text
