"""The growing text, and the pieces that are saved of it."""

from hypothesis import given
from hypothesis import strategies as st

from timothy.turn.said import Said

steps = st.lists(st.one_of(st.text(max_size=5), st.just(None)))


@given(steps)
def test_the_pieces_are_the_text_without_gap_or_overlap(steps):
    said, pieces = Said(), []
    for number, step in enumerate(steps):
        if step is None:
            pieces.append(said.piece("p", "m"))
        elif number % 2:
            said.add_reasoning(step)
        else:
            said.add_text(step)
    pieces.append(said.piece("p", "m"))
    assert "".join(piece.text for piece in pieces) == said.text
    assert "".join(piece.reasoning for piece in pieces) == said.reasoning
    assert [piece.number for piece in pieces] == list(range(1, len(pieces) + 1))
    assert said.bytes == len((said.text + said.reasoning).encode())
    assert not said.unsaved


def test_what_was_shown_since_the_last_piece_is_unsaved():
    said = Said()
    assert not said.unsaved
    said.add_reasoning("a")
    assert said.unsaved
    said.piece(None, None)
    assert not said.unsaved


def test_the_words_of_a_new_step_need_a_break_unless_there_is_one():
    said = Said()
    assert not said.needs_break
    said.add_text("a")
    assert said.needs_break
    said.add_text("b\n")
    assert not said.needs_break
