"""No half character and no NUL gets past a driver."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timothy.providers.honest import Mender, honest_value, lenient_json
from timothy.text import honest

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


@given(st.text(max_size=30))
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert honest(text.replace("\0", "")) == text.replace("\0", "")


@given(ANY_TEXT)
def test_repaired_text_can_be_stored_anywhere(text: str) -> None:
    assert "\0" not in honest(text)
    assert honest(text).encode().decode() == honest(text)


@given(ANY_TEXT, st.lists(st.integers(0, 30), max_size=6))
def test_a_text_in_pieces_is_mended_like_the_whole(text: str, cuts: list[int]) -> None:
    mender = Mender()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    told = [mender.mend(text[start:end]) for start, end in pairwise(places)]
    assert "".join(told) + mender.rest() == honest(text)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["ok \ud83d", "\ude00!"], "ok \U0001f600!"),
        (["x\ud83d"], "x\ufffd"),
        (["\ude00x"], "\ufffdx"),
        (["\ud83d", "x"], "\ufffdx"),
        (["\ud83d", "\ud83d\ude00"], "\ufffd\U0001f600"),
        (["a\0b"], "a\ufffdb"),
    ],
)
def test_a_character_split_over_two_pieces_is_joined(pieces: list[str], expected: str) -> None:
    mender = Mender()
    assert "".join(mender.mend(piece) for piece in pieces) + mender.rest() == expected


def test_a_value_is_repaired_all_through() -> None:
    value = {"a\0": ["\ud83d", {"b": "x"}, 1, None, True, 2**70]}
    assert honest_value(value) == {"a\ufffd": ["\ufffd", {"b": "x"}, 1, None, True, str(2**70)]}
    assert msgspec.json.encode(honest_value(value))


def test_what_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        lenient_json("[" * 100_000)
    with pytest.raises(ValueError, match="deep"):
        honest_value(lenient_json("[" * 300 + "]" * 300))
