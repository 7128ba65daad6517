"""Frames come out the same, however the bytes come in."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timothy.errors import MalformedStream
from timothy.providers import ndjson, sse

pytestmark = pytest.mark.once


def frames(framer: sse.Framer | ndjson.Framer | ndjson.Whole, pieces: list[bytes]) -> list[bytes]:
    return [frame for piece in pieces for frame in framer.feed(piece)] + framer.finish()


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return [body[start:end] for start, end in pairwise(places)]


LINES = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=30)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
CUTS = st.lists(st.integers(0, 10_000), max_size=30)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6), ENDS, st.sampled_from(["", " "]), CUTS)
def test_every_line_of_data_comes_out_whatever_ends_it_and_wherever_it_is_split(
    texts: list[str], end: str, space: str, cuts: list[int]
) -> None:
    told = [text for text in texts if space or not text.startswith(" ")]
    body = "".join(f"data:{space}{text}{end}{end}" for text in told).encode()
    assert frames(sse.Framer(), pieces(body, cuts)) == [text.encode() for text in told]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), CUTS)
def test_any_bytes_give_the_same_frames_in_any_split(body: bytes, cuts: list[int]) -> None:
    assert frames(sse.Framer(), pieces(body, cuts)) == frames(sse.Framer(), [body])
    assert frames(ndjson.Framer(), pieces(body, cuts)) == frames(ndjson.Framer(), [body])


SSE_LIKE = st.lists(
    st.sampled_from(
        [b"data", b":", b" ", b"\r", b"\n", b"\r\n", b"\n\n", b"x", b"id", b"event", b"\xef\xbb\xbf"]
    ),
    max_size=40,
).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(SSE_LIKE)
def test_bytes_that_look_like_events_give_the_same_frames_one_by_one(body: bytes) -> None:
    single = [body[place : place + 1] for place in range(len(body))]
    assert frames(sse.Framer(), single) == frames(sse.Framer(), [body])


@settings(max_examples=200, deadline=None)
@given(SSE_LIKE.map(lambda body: body.replace(b"data", b"\n\ndata: ")))
def test_bytes_that_look_like_events_give_the_same_frames_event_by_event(body: bytes) -> None:
    each = [part + b"\n\n" for part in body.split(b"\n\n")]
    assert frames(sse.Framer(), each) == frames(sse.Framer(), [b"".join(each)])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20)), max_size=8), ENDS, CUTS)
def test_json_lines_come_out_whole(values: list[dict[str, str]], end: str, cuts: list[int]) -> None:
    body = "".join(json.dumps(value, ensure_ascii=False) + end for value in values).encode("utf-8", "replace")
    assert [json.loads(frame) for frame in frames(ndjson.Framer(), pieces(body, cuts))] == values


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"data:\n\n", [b""]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": note\n\n: note\ndata: a\n: note\n\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"event: x\n\ndata: a", [b"a"]),
        (b"\n\n\n\ndata: a\r\n\r\n\r\ndata: b\r\rdata: c\n\r\n", [b"a", b"b", b"c"]),
        (
            "data: a\u2028b\u2029c\u0085d\x0b\x0c\x1c\n\n".encode(),
            ["a\u2028b\u2029c\u0085d\x0b\x0c\x1c".encode()],
        ),
        (b"dataset: a\n\n", []),
        (b" data: a\n\n", []),
    ],
)
def test_an_event_is_what_the_standard_says(body: bytes, expected: list[bytes]) -> None:
    assert frames(sse.Framer(), [body]) == expected
    assert frames(sse.Framer(), [body[place : place + 1] for place in range(len(body))]) == expected


def test_an_event_is_given_as_soon_as_its_blank_line_begins() -> None:
    assert sse.Framer().feed(b"data: a\r\n\r") == [b"a"]
    assert sse.Framer().feed(b"data: a\n\n") == [b"a"]
    assert ndjson.Framer().feed(b"{}\r") == [b"{}"]


def test_the_first_line_that_is_no_field_is_kept() -> None:
    framer = sse.Framer()
    assert frames(framer, [b"upstream failed\nreally\n\n"]) == []
    assert framer.strange == b"upstream failed"


def test_blank_lines_between_json_lines_are_nothing() -> None:
    assert frames(ndjson.Framer(), [b"\xef\xbb\xbf{}\n\n \t\n{}\r\n\r\n{}"]) == [b"{}", b"{}", b"{}"]


def test_a_whole_body_comes_at_its_end() -> None:
    framer = ndjson.Whole()
    assert framer.feed(b"\xef\xbb\xbf{") == [] and framer.feed(b"}") == []
    assert framer.finish() == [b"{}"]


@pytest.mark.parametrize("make", [sse.Framer, ndjson.Framer, ndjson.Whole])
def test_a_frame_without_end_is_refused_before_it_fills_the_memory(make: type) -> None:
    framer = make()
    with pytest.raises(MalformedStream, match="longer than"):
        for _ in range(40):
            framer.feed(b"x" * 1024 * 1024)
