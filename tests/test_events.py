"""The vocabulary: encoded once, readable by every parser, the same after a round trip."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timothy import events
from timothy.events import (
    Done,
    Event,
    Failover,
    Meta,
    TextDelta,
    Tokens,
    Usage,
    decode,
    encode,
    frame,
    tokens,
)

KINDS = Event.__subclasses__()
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
number = st.integers(-(2**53), 2**53)
value = st.recursive(st.none() | st.booleans() | number | text, lambda inner: st.dictionaries(text, inner))
BY_TYPE = {
    str: text,
    int: number,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
    Tokens: st.builds(Tokens, number, number | st.none(), st.none()),
}


def of(kind) -> st.SearchStrategy:
    """Events of `kind` with any values that its fields allow."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        fields[field.name] = of_type(field.type)
    return st.builds(kind, **fields)


def of_type(kind) -> st.SearchStrategy:
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    arguments = getattr(kind, "__args__", ())
    if getattr(kind, "__origin__", None) is dict:
        return st.dictionaries(text, value, max_size=3)
    if all(isinstance(argument, str) for argument in arguments):
        return st.sampled_from(arguments)
    return st.one_of(*(of_type(argument) for argument in arguments))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_in_the_union_that_is_decoded(kind):
    assert kind in events.AnyEvent.__args__


@given(st.one_of(*(of(kind) for kind in KINDS)))
def test_every_event_survives_the_way_over_the_wire(event):
    assert decode(encode(event)) == event


@given(st.one_of(*(of(kind) for kind in KINDS)), st.integers(1, 10**6))
def test_a_frame_is_one_server_sent_event_with_its_number_in_it(event, seq):
    data = frame(event, "turn-1", seq)
    first, second, *rest = data.split(b"\n")
    assert first == f"id: turn-1:{seq}".encode()
    assert rest == [b"", b""]
    body = json.loads(second.removeprefix(b"data: "))
    assert (body["seq"], body["turn_id"]) == (seq, "turn-1")
    assert decode(second.removeprefix(b"data: ")) == event


@given(text)
def test_no_parser_finds_a_line_end_inside_a_frame(words):
    line = encode(TextDelta(words))
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line)["text"] == words


@pytest.mark.parametrize(
    ("character", "escaped"), [("\u2028", b"\\u2028"), ("\u2029", b"\\u2029"), ("\x85", b"\\u0085")]
)
def test_line_ends_of_some_parsers_travel_escaped(character, escaped):
    line = encode(TextDelta(f"a{character}b"))
    assert escaped in line
    assert decode(line) == TextDelta(f"a{character}b")


def test_a_lone_surrogate_is_repaired_and_a_pair_is_joined():
    assert decode(encode(TextDelta("a\ud800b"))) == TextDelta("a\ufffdb")
    assert decode(encode(TextDelta("\ud83d\ude00"))) == TextDelta("\U0001f600")


def test_a_surrogate_deep_in_a_calls_arguments_is_repaired():
    call = events.ToolCall("c", "write_file", {"deep": [{"\udfff": "x\ud800"}]})
    assert decode(encode(call)).input == {"deep": [{"\ufffd": "x\ufffd"}]}


def test_what_must_always_be_there_is_there_even_when_it_is_unknown():
    meta = Meta("s", "failed", None, None, None, None, None, None)
    assert json.loads(encode(meta)) == {
        "type": "meta",
        "session_id": "s",
        "outcome": "failed",
        "provider": None,
        "model": None,
        "usage": None,
        "cost": None,
        "duration_ms": None,
        "title": None,
    }


def test_the_sum_in_meta_has_no_type_of_its_own():
    meta = Meta("s", "completed", "p", "m", tokens(Usage(1, 2, None)), 0.5, 3, "t")
    assert json.loads(encode(meta))["usage"] == {
        "input_tokens": 1,
        "output_tokens": 2,
        "cached_tokens": None,
    }
    assert tokens(None) is None


def test_a_failover_says_from_and_to():
    assert json.loads(encode(Failover("a", "b", "overloaded"))) == {
        "type": "failover",
        "from": "a",
        "to": "b",
        "code": "overloaded",
    }


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"type":"nonsense"}', b'{"type":"done"}', b"\xff"])
def test_what_is_none_of_the_vocabulary_is_refused(line):
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        decode(line)


def test_an_event_cannot_be_changed():
    with pytest.raises(AttributeError):
        Done("stop").finish_reason = "length"
