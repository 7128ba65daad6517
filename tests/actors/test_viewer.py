"""One subscriber: the same bytes for everyone, no wake lost, a slow one cut loose, nothing left behind."""

import threading

import pykka
import pytest

from actors import viewer as viewers_module
from actors.messages import Ping, Remind
from actors.viewer import BEHIND, OPENING, PIECE, PING, STALL_S, ViewerActor, Viewers
from tests.actors.play import Probe, eventually
from timothy.events import Done, TextDelta, frame
from timothy.turn.replay import Replay


@pytest.fixture
def viewers():
    return Viewers(20.0, lambda: 0.0)


@pytest.fixture
def replay():
    return Replay("s", "t")


def frames(*events, first=1):
    return b"".join(frame(event, "t", seq) for seq, event in enumerate(events, start=first))


def watch(replay, viewers, cursor=0, shut=lambda: None):
    return ViewerActor(replay, cursor, viewers, shut)


class Reading(threading.Thread):
    """Reads a viewer to its end, as a server does."""

    def __init__(self, viewer):
        super().__init__(daemon=True)
        self.viewer, self.pieces = viewer, []
        self.start()

    def run(self):
        for piece in self.viewer:
            self.pieces.append(piece)
        self.viewer.close()

    def all(self):
        self.join(20)
        assert not self.is_alive()
        return b"".join(self.pieces)


def test_a_comment_leaves_first_and_then_what_there_is(replay, viewers):
    replay.append(TextDelta("a"))
    viewer = watch(replay, viewers)
    assert next(viewer) == OPENING
    assert next(viewer) == frames(TextDelta("a"))
    viewer.close()


@pytest.mark.parametrize("comment", [OPENING, PING])
def test_a_comment_is_one_line_with_one_newline(comment):
    assert comment.startswith(b":") and comment.endswith(b"\n") and comment.count(b"\n") == 1


def test_a_viewer_replays_follows_and_ends_with_the_turn(replay, viewers):
    replay.append(TextDelta("a"))
    reading = Reading(watch(replay, viewers))
    eventually(lambda: len(reading.pieces) == 2)
    replay.append(TextDelta("b"))
    replay.append(Done("stop"))
    replay.close()
    assert reading.all() == OPENING + frames(TextDelta("a"), TextDelta("b"), Done("stop"))


def test_a_cursor_leaves_out_what_was_seen(replay, viewers):
    for text in "abc":
        replay.append(TextDelta(text))
    replay.close()
    assert Reading(watch(replay, viewers, 2)).all() == OPENING + frames(TextDelta("c"), first=3)
    assert Reading(watch(replay, viewers, 3)).all() == OPENING


def test_what_piled_up_leaves_in_pieces_of_bounded_size(replay, viewers):
    events = [*[TextDelta("x" * 100)] * 1000, TextDelta("y" * 3 * PIECE)]
    for event in events:
        replay.append(event)
    replay.close()
    reading = Reading(watch(replay, viewers))
    assert reading.all() == OPENING + frames(*events)
    assert max(map(len, reading.pieces)) <= PIECE
    assert len(reading.pieces) < 20


def test_many_wakes_before_a_look_are_one_message(replay, viewers):
    viewer = watch(replay, viewers)
    next(viewer)
    for _ in range(100):
        replay.append(TextDelta("a"))
    count = 0
    while not viewer.actor_inbox.empty():
        viewer.actor_inbox.get()
        count += 1
    assert count == 1
    viewer.close()


def test_viewers_of_a_turn_that_hurries_see_the_same_and_all_of_it(replay, viewers):
    readings = [Reading(watch(replay, viewers)) for _ in range(5)]
    for number in range(3000):
        replay.append(TextDelta(str(number)))
        if number % 600 == 0:
            readings.append(Reading(watch(replay, viewers)))
    replay.close()
    seen = {reading.all() for reading in readings}
    assert seen == {OPENING + frames(*(TextDelta(str(number)) for number in range(3000)))}
    assert len(viewers) == 0


def test_a_viewer_counts_only_while_its_stream_runs(replay, viewers):
    before = pykka.ActorRegistry.get_all()
    viewer = watch(replay, viewers)
    assert len(viewers) == 0 and not replay.watched
    assert pykka.ActorRegistry.get_all() == before
    next(viewer)
    assert len(viewers) == 1 and replay.watched
    viewer.close()
    assert len(viewers) == 0 and not replay.watched
    assert pykka.ActorRegistry.get_all() == before


def test_closing_twice_or_before_the_first_read_does_nothing(replay, viewers):
    viewer = watch(replay, viewers)
    viewer.close()
    viewer.close()
    replay.append(TextDelta("a"))
    assert not viewer.actor_ref.is_alive()


def test_a_wake_after_the_close_is_no_error(replay, viewers):
    viewer = watch(replay, viewers)
    next(viewer)
    viewer.close()
    viewer.wake()


# --- heartbeats, and viewers that take nothing ---


def test_silence_is_broken_by_a_ping_and_only_by_one(replay, viewers):
    viewer = watch(replay, viewers)
    next(viewer)
    reading = Reading(viewer)
    eventually(lambda: viewer.taken)
    now = viewer.commented_at
    viewer.tick(now + 14.9, 15)
    viewer.tick(now + 15, 15)
    viewer.tick(now + 15.1, 15)
    eventually(lambda: reading.pieces == [PING])
    replay.close()
    assert reading.all() == PING


def test_what_was_handed_and_not_taken_gets_no_ping_on_top(replay, viewers):
    viewer = watch(replay, viewers)
    next(viewer)  # handed over, and the server does not come back for more
    viewer.tick(viewer.handed_at + 60, 15)
    assert viewer.actor_inbox.empty()
    viewer.close()


@pytest.mark.parametrize(
    ("behind", "silent", "cut"),
    [
        (BEHIND + 1, STALL_S, True),
        (BEHIND + 1, STALL_S - 0.1, False),
        (BEHIND, STALL_S + 60, False),
        (0, STALL_S + 60, False),
    ],
)
def test_a_viewer_is_cut_loose_when_it_is_far_behind_and_takes_nothing(replay, viewers, behind, silent, cut):
    shut = []
    viewer = watch(replay, viewers, shut=lambda: shut.append(1))
    next(viewer)
    for _ in range(behind):
        replay.append(TextDelta("a"))
    viewer.tick(viewer.handed_at + silent, 15)
    assert bool(shut) == cut
    if cut:
        assert list(viewer) == []  # no meta, no more frames
    viewer.close()


def test_a_viewer_that_takes_something_now_and_then_is_kept(replay, viewers):
    shut = []
    viewer = watch(replay, viewers, shut=lambda: shut.append(1))
    next(viewer)
    for _ in range(10 * BEHIND):
        replay.append(TextDelta("x" * 1000))
    for _ in range(5):
        next(viewer)
        viewer.tick(viewer.handed_at + STALL_S - 0.5, 15)
    assert shut == []
    viewer.close()


def test_one_ticker_serves_all_and_asks_for_its_next_time_first(replay):
    now = [0.0]
    clock, viewers = Probe(), Viewers(8.0, lambda: now[0])
    viewers.start(clock)
    assert clock.messages == [Remind(1.0, viewers, None)]

    class Broken:
        def tick(self, now, heartbeat_s):
            raise ValueError("broken viewer")

    viewers.add(Broken())
    now[0] = 1.0
    with pytest.raises(ValueError, match="broken viewer"):
        viewers.tell(None)
    assert clock.messages[-1] == Remind(2.0, viewers, None)


@pytest.mark.parametrize("heartbeat_s", [0.2, 5.0, 20.0])
def test_a_heartbeat_is_never_later_than_it_may_be(replay, heartbeat_s):
    now = [0.0]
    viewers = Viewers(heartbeat_s, lambda: now[0])
    viewers.start(Probe())
    viewer = watch(replay, viewers)
    next(viewer)
    viewer.taken, viewer.commented_at = True, 0.0
    while viewer.actor_inbox.empty():
        now[0] += viewers.interval_s
        viewers.tell(None)
    assert now[0] <= heartbeat_s
    assert isinstance(viewer.actor_inbox.get().message, Ping)
    viewer.close()


def test_the_numbers_are_those_that_are_promised():
    assert (viewers_module.BEHIND, viewers_module.STALL_S, viewers_module.PIECE) == (64, 5.0, 16384)
