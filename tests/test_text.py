"""Text that a database and a reader can take."""

import json
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timothy.text import honest, to_json

anything = st.text(st.characters() | st.characters(categories=["Cs"]) | st.just("\0"))


@pytest.mark.parametrize(
    ("given_text", "repaired"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\x00b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d", "\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("x\ud83d\x00\ude00", "x\ufffd\ufffd\ufffd"),
    ],
)
def test_broken_characters_are_joined_or_replaced(given_text, repaired):
    assert honest(given_text) == repaired


@given(anything)
def test_honest_text_can_be_stored_and_read_again(words):
    repaired = honest(words)
    assert "\x00" not in repaired
    assert sqlite3.connect(":memory:").execute("SELECT ?", (repaired,)).fetchone() == (repaired,)
    assert honest(repaired) == repaired


@given(
    st.recursive(
        anything | st.integers(-5, 5) | st.none(),
        lambda v: st.lists(v, max_size=3) | st.dictionaries(anything, v, max_size=3),
        max_leaves=8,
    )
)
def test_json_is_always_utf_8(value):
    json.loads(to_json(value).decode())


def test_json_leaves_sound_text_as_it_is():
    assert to_json({"ä": ["€", None, 1]}) == '{"ä":["€",null,1]}'.encode()
