"""A chunked body comes out whole, in any split, and as soon as it is there."""

import http.client
import itertools
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as some

from timothy.providers.chunked import Chunks, Response


def coded(pieces: list[bytes], extension: bytes = b"") -> bytes:
    """The pieces as a chunked body (RFC 9112, section 7.1)."""
    return b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + b"0\r\n\r\n"


def fed(parts: list[bytes]) -> tuple[bytes, bool]:
    chunks = Chunks()
    return b"".join(chunks.feed(part) for part in parts if not chunks.ended), chunks.ended


@given(some.lists(some.binary(min_size=1, max_size=40)), some.lists(some.integers(0, 400)))
def test_a_body_comes_out_whole_in_any_split(pieces: list[bytes], cuts: list[int]) -> None:
    body = coded(pieces)
    places = sorted({0, len(body), *(min(cut, len(body)) for cut in cuts)})
    parts = [body[a:b] for a, b in itertools.pairwise(places)]
    assert fed(parts) == (b"".join(pieces), True)


def test_a_body_comes_out_whole_byte_by_byte() -> None:
    body = coded([b"one\r\n", b"\n", b"a" * 300], b";name=value")
    assert fed([body[i : i + 1] for i in range(len(body))]) == (b"one\r\n\n" + b"a" * 300, True)


@given(some.lists(some.binary(min_size=1, max_size=40), min_size=1))
def test_a_chunk_a_read_comes_out_whole(pieces: list[bytes]) -> None:
    chunks = Chunks()
    assert [chunks.feed(coded([piece])[:-5]) for piece in pieces] == pieces
    assert chunks.feed(b"0\r\n\r\n") == b"" and chunks.ended


def test_the_beginning_of_a_chunk_is_given_at_once() -> None:
    chunks = Chunks()
    assert chunks.feed(b"a\r\nhello") == b"hello"
    assert chunks.feed(b" you!\r\n3\r\nabc") == b" you!abc"
    assert not chunks.ended


def test_lines_may_end_in_a_line_feed_alone() -> None:
    assert fed([b"3\nabc\n1\nd\n0\n\n"]) == (b"abcd", True)


@pytest.mark.parametrize("line", [b"xyz\r\n", b"-5\r\nabcde", b"\r\n\r\n\r\n", b"1" * 5000])
def test_what_is_no_chunk_is_refused(line: bytes) -> None:
    with pytest.raises(http.client.IncompleteRead):
        Chunks().feed(line)


def test_an_answer_gives_what_is_there_and_never_waits_for_more() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n3\r\ne")
        with Response(ours) as answer:
            answer.begin()
            assert answer.read1(65536) == b"abcde"
            theirs.sendall(b"fg\r\n0\r\n\r\n")
            assert answer.read1(65536) == b"fg"
            assert answer.read1(65536) == b""


def test_a_body_that_breaks_off_is_no_end() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        theirs.close()
        with Response(ours) as answer:
            answer.begin()
            assert answer.read1(65536) == b"ab"
            with pytest.raises(http.client.IncompleteRead):
                answer.read1(65536)


def test_a_body_of_a_known_length_that_breaks_off_is_no_end() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
        theirs.close()
        with Response(ours) as answer:
            answer.begin()
            assert answer.read1(65536) == b"ab"
            with pytest.raises(http.client.IncompleteRead):
                answer.read1(65536)
