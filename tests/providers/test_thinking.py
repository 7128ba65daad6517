"""Thinking in tags is told apart from the answer, however it is split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timothy.providers.thinking import Thinking

CASES = [
    ("<think>plan</think>answer", "plan", "answer"),
    ("\n <think>plan</think>\n\nanswer", "plan", "answer"),
    ("use a <think> tag", "", "use a <think> tag"),
    ("<thinking>no</thinking>", "", "<thinking>no</thinking>"),
    ("<think></think>answer", "", "answer"),
    ("<think>a < b </thin c</think>d </think> e", "a < b </thin c", "d </think> e"),
    ("<think>never closed", "never closed", "never closed"),
    ("<think>half a tag</thi", "half a tag</thi", "half a tag</thi"),
    ("<thi", "", "<thi"),
    ("  ", "", "  "),
    ("", "", ""),
]


def sorted_out(pieces: list[str], *, cut: bool = False) -> tuple[str, str]:
    thinking = Thinking()
    parts = []
    for piece in pieces:
        parts += [("text", piece)] if thinking.over else thinking.feed(piece)
    parts += thinking.finish(cut=cut)
    text, reasoning = (
        "".join(part for kind, part in parts if kind == wanted) for wanted in ("text", "reasoning")
    )
    return reasoning, text


@pytest.mark.parametrize(("whole", "reasoning", "text"), CASES)
def test_thinking_is_what_stands_in_tags_at_the_start(whole: str, reasoning: str, text: str) -> None:
    assert sorted_out([whole]) == (reasoning, text)
    assert sorted_out(list(whole)) == (reasoning, text)
    for place in range(len(whole)):
        assert sorted_out([whole[:place], whole[place:]]) == (reasoning, text)


def test_thinking_that_was_cut_short_is_not_the_answer() -> None:
    assert sorted_out(["<think>hm"], cut=True) == ("hm", "")


def test_thinking_streams_while_it_comes() -> None:
    thinking = Thinking()
    assert thinking.feed("<think>one ") == [("reasoning", "one ")]
    assert thinking.feed("two</th") == [("reasoning", "two")]
    assert thinking.feed("ree") == [("reasoning", "</three")]


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "think", ">", "/", "a", " ", "\n"]), max_size=12)
)
def test_any_split_sorts_the_same(pieces: list[str]) -> None:
    assert sorted_out(pieces) == sorted_out(["".join(pieces)])
