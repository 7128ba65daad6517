"""Small notes: kept whole, by whoever writes them."""

import threading
from pathlib import Path

import pytest

from timothy.cancel import Cancel
from timothy.tools.base import Context, Tool, ToolError
from timothy.tools.notes import MAX_NOTES, Notes, NotesDamaged, NotesFull


def test_a_note_is_there_for_the_next_process(tmp_path: Path) -> None:
    note = Notes(tmp_path).add("  tea, not coffee ")
    assert Notes(tmp_path).all() == [note]
    assert note.text == "tea, not coffee" and note.created_at.endswith("Z")


def test_the_same_note_twice_is_one(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    assert notes.add("tea") == notes.add("tea")
    assert len(notes.all()) == 1


def test_a_note_can_be_changed_and_deleted(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    first, second = notes.add("tea"), notes.add("cats")
    changed = notes.edit(first.id, "coffee")
    assert changed and (changed.id, changed.text, changed.created_at) == (
        first.id,
        "coffee",
        first.created_at,
    )
    assert notes.all() == [changed, second]
    assert notes.delete(first.id) and not notes.delete(first.id)
    assert notes.edit(first.id, "x") is None
    assert notes.all() == [second]


@pytest.mark.parametrize("text", ["", "   ", "x" * 2_001])
def test_a_note_is_neither_empty_nor_long(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotesFull, match="1 to 2000"):
        Notes(tmp_path).add(text)


def test_there_is_an_end_to_notes(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    (tmp_path / "notes.json").write_text(
        "[" + ",".join(f'{{"id":"{n}","text":"{n}","created_at":""}}' for n in range(MAX_NOTES)) + "]"
    )
    with pytest.raises(NotesFull, match="delete one"):
        notes.add("one more")
    assert notes.delete("0") and notes.add("one more")


def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("[{")
    for act in (Notes(tmp_path).all, lambda: Notes(tmp_path).add("x"), lambda: Notes(tmp_path).delete("x")):
        with pytest.raises(NotesDamaged, match=r"notes\.json"):
            act()
    assert (tmp_path / "notes.json").read_text() == "[{"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.new").mkdir()
    with pytest.raises(NotesDamaged, match=r"notes\.json"):
        Notes(tmp_path).add("x")
    with pytest.raises(NotesDamaged, match=r"notes\.json"):
        Notes(tmp_path / "no home").add("x")


def test_parallel_notes_do_not_lose_each_other(tmp_path: Path) -> None:
    writers = [threading.Thread(target=Notes(tmp_path).add, args=(f"note {number}",)) for number in range(20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {note.text for note in Notes(tmp_path).all()} == {f"note {number}" for number in range(20)}


def test_text_that_utf8_cannot_hold_is_repaired(tmp_path: Path) -> None:
    assert Notes(tmp_path).add("half \ud800").text == "half \ufffd"


def test_the_assistant_remembers_recalls_and_corrects(context: Context, tools: dict[str, Tool]) -> None:
    said = tools["remember"].run({"text": "Anna's birthday is in May"}, context, Cancel())
    tools["remember"].run({"text": "tea, not coffee"}, context, Cancel())
    [note, other] = context.notes.all()
    assert note.id in said
    assert (
        tools["recall"]
        .run({"words": "ANNA birthday"}, context, Cancel())
        .endswith("Anna's birthday is in May")
    )
    tools["remember"].run({"text": "Anna's birthday is in June", "id": note.id}, context, Cancel())
    assert "June" in tools["recall"].run({}, context, Cancel())
    assert other.text in tools["recall"].run({}, context, Cancel())
    assert tools["recall"].run({"words": "zebra"}, context, Cancel()) == "There is no such note."
    with pytest.raises(ToolError, match="no note 'zzz'"):
        tools["remember"].run({"text": "x", "id": "zzz"}, context, Cancel())


def test_damaged_notes_are_an_error_in_words(context: Context, tools: dict[str, Tool]) -> None:
    (context.home / "notes.json").write_text("{}")
    for name, input in (("remember", {"text": "x"}), ("recall", {})):
        with pytest.raises(ToolError, match=r"notes\.json"):
            tools[name].run(input, context, Cancel())
