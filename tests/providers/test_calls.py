"""Tool calls come out whole, whatever a provider does to index, id and name."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timothy.errors import MalformedStream
from timothy.events import ToolCall, ToolCallStarted
from timothy.providers.calls import Calls

pytestmark = pytest.mark.once

Piece = tuple[int | None, str | None, str | None, Any]


def assembled(pieces: list[Piece], *, cut: bool = False) -> tuple[list[ToolCallStarted], list[ToolCall]]:
    calls = Calls()
    told = [calls.piece(*piece) for piece in pieces]
    ended = calls.finish(cut=cut)
    started = [event for event in [*told, *ended] if isinstance(event, ToolCallStarted)]
    whole = [event for event in ended if isinstance(event, ToolCall)]
    assert {event.call_id for event in whole} <= {event.call_id for event in started}
    assert len({event.call_id for event in whole}) == len(whole)
    return started, whole


def inputs(pieces: list[Piece], *, cut: bool = False) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.input) for call in assembled(pieces, cut=cut)[1]]


A, B = ("add", {"a": 1}), ("now", {"b": 2})


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(
            [(0, "A", "add", ""), (0, None, None, '{"a":'), (0, None, None, "1}")], [A], id="pieces"
        ),
        pytest.param([(0, "A", "add", '{"a":1}'), (1, "B", "now", '{"b":2}')], [A, B], id="parallel"),
        pytest.param([(0, "A", "add", '{"a":1}'), (0, "B", "now", '{"b":2}')], [A, B], id="all at index 0"),
        pytest.param([(1, "A", "add", '{"a":1}'), (2, "B", "now", '{"b":2}')], [A, B], id="starts at 1"),
        pytest.param([(None, "A", "add", '{"a"'), (None, "", "", ":1}")], [A], id="no index, empty id later"),
        pytest.param([(None, "A", "add", '{"a":1}'), (None, "B", "now", '{"b":2}')], [A, B], id="no index"),
        pytest.param(
            [(None, None, "add", '{"a":1}'), (None, None, "now", '{"b":2}')], [A, B], id="nothing but names"
        ),
        pytest.param(
            [(0, None, "add", '{"a":1}'), (0, None, "add", '{"a":2}')], [A, ("add", {"a": 2})], id="no ids"
        ),
        pytest.param(
            [(0, "A", "add", '{"a":1}'), (1, "A", "now", '{"b":2}')], [A, B], id="the same id twice"
        ),
        pytest.param([(0, "A", "add", '{"a"'), (0, "A", "add", ":1}")], [A], id="id and name in every piece"),
        pytest.param(
            [(0, "A", "add", '{"a":1}'), (0, "A", "add", '{"a":1}')], [A], id="the whole call repeated"
        ),
        pytest.param(
            [(0, "A", "add", '{"a":1}'), (0, None, "add", "")], [A], id="a last piece with the name"
        ),
        pytest.param([(0, "A", None, ""), (0, None, "add", '{"a":1}')], [A], id="the name comes later"),
        pytest.param([(0, None, "add", '{"a"'), (0, "A", None, ":1}")], [A], id="the id comes later"),
        pytest.param([(0, "A", "add", {"a": 1})], [A], id="an object"),
        pytest.param([(0, "A", "add", '{"a":1}{"a":2}')], [A, ("add", {"a": 2})], id="two glued"),
        pytest.param([(0, "A", "add", '{"a":1}{"a":1}')], [A], id="one said twice"),
        pytest.param([(0, "A", "add", '"{\\"a\\":1}"')], [A], id="encoded twice"),
        pytest.param([(0, "A", "add", None)], [("add", {})], id="no arguments"),
        pytest.param([(0, "A", "add", " \n")], [("add", {})], id="blank arguments"),
        pytest.param([(0, "A", "add", '{"a":"x\ny"}')], [("add", {"a": "x\ny"})], id="a raw line end"),
        pytest.param(
            [(0, "A", "add", '{"a":"\ud83d'), (0, None, None, '\ude00\\ud83d"}')],
            [("add", {"a": "\U0001f600\ufffd"})],
            id="half characters",
        ),
        pytest.param(
            [
                (0, "A", "add", "{"),
                (1, "B", "now", "{"),
                (0, None, None, '"a":1}'),
                (1, None, None, '"b":2}'),
            ],
            [A, B],
            id="in turns",
        ),
    ],
)
def test_calls_are_put_together(pieces: list[Piece], expected: list[tuple[str, dict[str, Any]]]) -> None:
    assert inputs(pieces) == expected


@pytest.mark.parametrize("raw", ["{", "[1]", "5", '{"a":1} and more', '"text"', "[" * 5000, "null"])
def test_arguments_that_are_no_object_are_told_as_they_came(raw: str) -> None:
    (call,) = assembled([(0, "A", "add", raw)])[1]
    assert (call.input, call.malformed) == ({}, raw)


def test_a_half_call_is_left_out_when_the_limit_cut_it() -> None:
    assert inputs([(0, "A", "add", '{"a":1}'), (1, "B", "now", '{"b":')], cut=True) == [A]


def test_a_call_without_a_name_is_no_call() -> None:
    with pytest.raises(MalformedStream, match="without a name"):
        assembled([(0, "A", None, "{}")])


def test_a_call_is_announced_once_and_as_soon_as_its_name_is_known() -> None:
    calls = Calls()
    assert calls.piece(0, "A", None, None) is None
    assert calls.piece(0, None, "add", None) == ToolCallStarted("A", "add")
    assert calls.piece(0, "A", "add", "{}") is None


def test_an_id_is_the_providers_own_where_that_can_be() -> None:
    _, whole = assembled([(0, "A", "add", "{}"), (1, "A", "add", "{}"), (2, None, "add", "{}")])
    assert [call.call_id for call in whole[:2]] == ["A", "A-2"]
    assert whole[2].call_id.startswith("call_")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
INPUT = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "now", "find"]), INPUT), min_size=1, max_size=4),
    st.lists(st.integers(0, 200), max_size=8),
    st.sampled_from(["index and id", "index", "id", "index 0 and id"]),
    st.booleans(),
)
def test_any_calls_in_any_pieces_come_out_as_they_were(
    wanted: list[tuple[str, dict[str, Any]]], cuts: list[int], style: str, ascii_only: bool
) -> None:
    pieces: list[Piece] = []
    for number, (name, value) in enumerate(wanted):
        raw = json.dumps(value, ensure_ascii=ascii_only)
        places = sorted({0, len(raw), *(cut % len(raw) for cut in cuts)})
        index = {"id": None, "index 0 and id": 0}.get(style, number)
        call_id = None if style == "index" else f"id{number}"
        for start, end in pairwise(places):
            first = start == 0
            pieces.append((index, call_id if first else None, name if first else None, raw[start:end]))
    told = json.loads(json.dumps([[name, value] for name, value in wanted]).replace("\\u0000", "\\ufffd"))
    assert [list(call) for call in inputs(pieces)] == told


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-1, 3),
            st.none() | st.sampled_from(["", "A", "B"]),
            st.none() | st.sampled_from(["", "add", "now"]),
            st.none() | st.sampled_from(["", "{", "}", '{"a":1}', '"', "{}", "\ud83d"]) | st.just({"a": 1}),
        ),
        max_size=10,
    ),
    st.booleans(),
)
def test_no_pieces_break_the_assembly(pieces: list[Piece], cut: bool) -> None:
    try:
        assembled(pieces, cut=cut)
    except MalformedStream as error:
        assert "without a name" in error.message
