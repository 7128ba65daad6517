"""The buffer of frames: the same bytes for everyone, from any cursor, while it grows."""

import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timothy.events import Done, TextDelta, frame
from timothy.turn.replay import SEGMENT, Replay


def filled(count):
    replay = Replay("s", "t")
    for number in range(count):
        replay.append(TextDelta(f"piece {number} "))
    return replay


def frames(count, after=0):
    return b"".join(frame(TextDelta(f"piece {n - 1} "), "t", n) for n in range(after + 1, count + 1))


def read_all(replay, cursor=0, limit=16384):
    found = []
    while cursor < replay.last_seq:
        data, cursor = replay.read(cursor, limit)
        assert data
        found.append(data)
    return b"".join(found)


@pytest.mark.parametrize("count", [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT, 3 * SEGMENT + 5])
def test_what_was_appended_is_read_sealed_or_not(count):
    replay = filled(count)
    assert replay.last_seq == count
    assert read_all(replay) == frames(count)


@given(st.integers(0, 2 * SEGMENT + 3), st.integers(500, 9000))
def test_a_reader_goes_on_from_any_cursor_in_pieces_of_any_size(cursor, limit):
    replay = filled_once()
    assert read_all(replay, cursor, limit) == frames(replay.last_seq, cursor)


_once = []


def filled_once():
    if not _once:
        _once.append(filled(2 * SEGMENT + 3))
    return _once[0]


def test_a_piece_is_about_the_limit_and_at_least_one_frame():
    replay = Replay("s", "t")
    replay.append(TextDelta("x" * 50_000))
    replay.append(TextDelta("y"))
    data, cursor = replay.read(0, 16384)
    assert (len(data) > 50_000, cursor) == (True, 1)
    many, cursor = filled(1000).read(0, 1000)
    assert len(many) <= 1000 and cursor > 1


def test_at_the_end_there_is_nothing_to_read():
    replay = filled(3)
    assert replay.read(3) == (b"", 3)
    assert replay.read(99) == (b"", 99)


def test_all_events_come_back_decoded():
    replay = filled(SEGMENT + 2)
    replay.append(Done("stop"))
    events = replay.events()
    assert len(events) == SEGMENT + 3
    assert events[SEGMENT] == TextDelta(f"piece {SEGMENT} ")
    assert events[-1] == Done("stop")


def test_text_with_every_kind_of_line_end_stays_one_frame():
    replay = Replay("s", "t")
    nasty = "a\n\nb\r\n\r\nid: x\n\ndata: {}\u2028\x85"
    for _ in range(SEGMENT + 1):
        replay.append(TextDelta(nasty))
    assert replay.events() == [TextDelta(nasty)] * (SEGMENT + 1)


def test_a_long_turn_takes_a_small_multiple_of_its_text():
    replay, text = Replay("s", "0" * 36), 0
    words = ["The ", "quick ", "brown ", "fox ", "jumps ", "over ", "it. "]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(20_000):
        word = words[number * 7919 % len(words)]
        text += len(word)
        replay.append(TextDelta(word))
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held < 5 * text


def test_a_wake_is_called_for_every_frame_and_for_the_end_until_it_is_unregistered():
    replay, calls = Replay("s", "t"), []

    def wake():
        calls.append(replay.last_seq)

    assert not replay.watched
    replay.register(wake)
    assert replay.watched
    replay.append(TextDelta("a"))
    replay.append(TextDelta("b"))
    replay.close()
    replay.unregister(wake)
    replay.unregister(wake)
    replay.append(TextDelta("c"))
    assert calls == [1, 2, 2]
    assert (replay.closed, replay.state, replay.watched) == (True, "ended", False)


class Follower(threading.Thread):
    """Reads as a viewer does: clears its flag, reads, waits only when there was nothing."""

    def __init__(self, replay, cursor=0):
        super().__init__(daemon=True)
        self.replay, self.cursor, self.got = replay, cursor, b""
        self.woken = threading.Event()
        replay.register(self.woken.set)

    def run(self):
        while True:
            self.woken.clear()
            data, self.cursor = self.replay.read(self.cursor, 700)
            self.got += data
            if not data:
                if self.replay.closed and self.cursor >= self.replay.last_seq:
                    return
                assert self.woken.wait(20), "a wake was lost"


def test_readers_that_come_at_any_time_miss_no_frame_and_no_end():
    for _ in range(30):
        replay = Replay("s", "t")
        followers = [Follower(replay) for _ in range(3)]
        for follower in followers:
            follower.start()
        for number in range(SEGMENT + 40):
            replay.append(TextDelta(f"piece {number} "))
            if number == SEGMENT:
                late = Follower(replay, 17)
                late.start()
        replay.close()
        for follower in (*followers, late):
            follower.join(20)
            assert not follower.is_alive()
        assert {follower.got for follower in followers} == {frames(SEGMENT + 40)}
        assert late.got == frames(SEGMENT + 40, 17)
