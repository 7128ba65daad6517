"""Any number of viewers attach at any moment, with any cursor, and see the same frames to the same end."""

import random
import threading
import time

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server
from tests.stories.wire import Stream


def test_twenty_viewers_at_random_moments_see_the_same_frames(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=300, delay_s=0.002)
    chance = random.Random(7)
    session = server.session()
    sender = server.send(session)
    viewers: list[tuple[int, Stream]] = []

    def watch(delay: float, portion: float) -> None:
        time.sleep(delay)  # a random moment, not a wait for something
        turn = server.read(session)["turn"]
        assert turn is not None and turn["id"] == sender.turn_id
        cursor = int(portion * turn["last_seq"])
        viewers.append((cursor, server.live(session, f"{sender.turn_id}:{cursor}").rest()))

    plans = [(chance.uniform(0, 0.5), chance.choice([0, 0, 1, chance.random()])) for _ in range(20)]
    threads = [threading.Thread(target=watch, args=plan) for plan in plans]
    for thread in threads:
        thread.start()
    sender.rest()
    for thread in threads:
        thread.join()
    assert len(viewers) == 20
    assert sender.end == "done" and sender.events[0]["seq"] == 1
    whole = [frame.raw for frame in sender.frames]
    for cursor, viewer in viewers:
        assert [frame.raw for frame in viewer.frames] == whole[cursor:]


@pytest.mark.parametrize("spelled", ["{turn}:{seq}", "{seq}", "Last-Event-ID"])
def test_a_cursor_goes_on_with_the_next_event(server: Server, provider: FakeProvider, spelled: str) -> None:
    provider.behave("fake", tokens=4, hold=3)
    session = server.session()
    sender = server.send(session)
    while sender.text != "t0 t1 t2 ":
        sender.until("text_delta")
    seq = sender.events[-1]["seq"] - 1
    if spelled == "Last-Event-ID":
        viewer = server.live(session, Last_Event_ID=f"{sender.turn_id}:{seq}")
    else:
        viewer = server.live(session, spelled.format(turn=sender.turn_id, seq=seq))
    provider.release("fake")
    sender.rest()
    assert [frame.raw for frame in viewer.rest().frames] == [frame.raw for frame in sender.frames][seq:]


@pytest.mark.parametrize("cursor", ["99999", "11111111-2222-4333-8444-555555555555:2", "0"])
def test_a_cursor_of_another_turn_or_beyond_the_end_replays_from_the_start(
    server: Server, provider: FakeProvider, cursor: str
) -> None:
    provider.behave("fake", tokens=3, hold=2)
    session = server.session()
    sender = server.send(session)
    sender.until("text_delta")
    viewer = server.live(session, cursor)
    provider.release("fake")
    sender.rest()
    assert [frame.raw for frame in viewer.rest().frames] == [frame.raw for frame in sender.frames]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "a:b", "1:2:3", "%20", "1e3", ":"])
def test_a_cursor_that_cannot_be_read_is_named(server: Server, provider: FakeProvider, cursor: str) -> None:
    provider.behave("fake", tokens=3, hold=2)
    session = server.session()
    server.send(session).until("turn_started")
    answer = server.call("GET", f"/v1/sessions/{session}/live?after={cursor}")
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert server.stop(session).status_code == 200


def test_the_query_wins_over_the_header(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=2)
    session = server.session()
    sender = server.send(session)
    sender.until("text_delta")
    viewer = server.live(session, "1", Last_Event_ID=f"{sender.turn_id}:2")
    provider.release("fake")
    assert viewer.rest().events[0]["seq"] == 2


def test_there_is_nothing_to_watch_where_nothing_runs(server: Server) -> None:
    session = server.session()
    answer = server.call("GET", f"/v1/sessions/{session}/live")
    assert (answer.status_code, answer.json()["error"]) == (404, "no_active_turn")
    assert server.send(session).rest().end == "done"
    assert server.call("GET", f"/v1/sessions/{session}/live").status_code == 404


def test_a_stream_says_what_it_is_before_any_work(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", hold="headers")
    session = server.session()
    for stream in (server.send(session), server.live(session)):
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["x-session-id"] == session
        assert "content-encoding" not in stream.headers
        stream.until("turn_started")
        assert len(stream.comments) == 1
        assert stream.comments[0][0] < stream.frames[0].at
    assert server.stop(session).status_code == 200


def test_a_session_tells_of_its_running_turn(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=2)
    session = server.session()
    sender = server.send(session, "hello")
    sender.until("text_delta")
    seen = server.read(session)
    assert seen["turn_active"] is True and seen["session"]["turn_active"] is True
    assert seen["turn"]["id"] == sender.turn_id
    assert seen["turn"]["state"] == "running"
    assert seen["turn"]["last_seq"] >= sender.events[-1]["seq"]
    assert seen["turn"]["started_at"] == sender.events[0]["started_at"]
    assert [item["kind"] for item in seen["items"]] == ["user"]
    assert server.turn(session, sender.turn_id)["state"] == "running"
    assert server.turn(session, sender.turn_id)["outcome"] is None
    provider.release("fake")
    sender.rest()
    seen = server.read(session)
    assert (seen["turn_active"], seen["turn"]) == (False, None)
    assert [item["kind"] for item in seen["items"]] == ["user", "assistant"]


def test_text_with_line_separators_arrives_as_it_was_sent(server: Server, provider: FakeProvider) -> None:
    text = "a\u2028b\u2029c\u0085d \U0001f600 é\r\n\r\ndata: x\n\n: y 漢字"
    provider.behave("fake", text=text)
    session = server.session()
    sender = server.send(session, text)
    sender.rest()
    assert sender.text == text
    assert sender.events[0]["message"] == text
    for frame in sender.frames:
        for separator in ("\u2028", "\u2029", "\u0085", "\r"):
            assert separator.encode() not in frame.raw
    assert server.evidence(session, sender.turn_id)["payload"]["text"] == text
