"""A session's title: first words, what a model is asked, what of its answer serves."""

import pytest

from timothy.eventlog.records import EndTurn, Row
from timothy.turn.title import READ_AT_MOST, cleaned, first_words, request


def ended(outcome="completed", kind="assistant_turn", **payload):
    return EndTurn(
        append_id="e",
        session_id="s",
        turn_id="t",
        rows=(Row(kind, payload),),
        outcome=outcome,
        code=None,
        message=None,
        usage=None,
        cost=None,
        provider=None,
        model=None,
    )


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("\n  \n  What time is it?\nNow?", "What time is it?"),
        ("x" * 60, "x" * 60),
        ("word " * 30, "word word word word word word word word word word word word …"),
        ("one, " + "y" * 100, "one …"),
        ("z" * 100, "z" * 60 + " …"),
        ("", ""),
    ],
)
def test_first_words_are_a_line_cut_between_words(text, title):
    assert first_words(text) == title
    assert len(first_words(text)) <= 62


def test_a_model_is_told_how_both_sides_begin():
    asked = request("Q" * 5000, ended(text="A" * 5000), "r", "m")
    (message,) = asked.messages
    assert "Q" * READ_AT_MOST + "\n" in message.text and message.text.endswith(
        "\n\nAssistant: " + "A" * READ_AT_MOST
    )
    assert (asked.session_id, asked.turn_id, asked.request_id, asked.model) == ("s", "t", "r", "m")


@pytest.mark.parametrize(
    "end",
    [
        ended("failed", "turn_failed", code="x", message="y"),
        ended("stopped", "pending_state", text="half"),
        ended(text="  "),
    ],
)
def test_no_model_is_asked_where_there_was_no_answer(end):
    assert request("Hello", end, "", None) is None


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("Baking bread at home", "Baking bread at home"),
        ('"Baking bread."\n\nThat is the title.', "Baking bread"),
        ("**Title: Baking bread**", "Baking bread"),
        ("# Titel: „Brot backen“", "Brot backen"),
        ("titles and names", "titles and names"),
        ("\n\n", ""),
        ('""', ""),
        ("word " * 30, "word word word word word word word word word word word word …"),
    ],
)
def test_only_the_title_of_a_models_answer_serves(words, title):
    assert cleaned(words) == title
