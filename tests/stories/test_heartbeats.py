"""No stream is silent for longer than promised, whatever the turn waits for; a heartbeat is one line."""

import itertools
import time

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import Start, entry
from tests.stories.server import Server
from tests.stories.wire import Stream

BEAT_S = 0.4
LATE_S = 0.35  # how much a busy machine may add
SETTINGS = f"[stream]\nheartbeat_s = {BEAT_S}\n"


@pytest.fixture(scope="module")
def beating(shared_servers: Start, provider: FakeProvider) -> Server:
    return shared_servers(SETTINGS + entry(provider))


WAITS = {
    "for the provider's headers": Behaviour(hold="headers"),
    "for the first token": Behaviour(tokens=2, hold=0),
    "in the middle of the text": Behaviour(tokens=2, hold=1),
    "while the provider sends keepalives": Behaviour(tokens=2, hold=1, keepalive_s=0.05),
    "for a permission": Behaviour(
        tools=({"name": "write_file", "arguments": {"path": "a", "content": "b"}},)
    ),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_silent_stream_beats(beating: Server, provider: FakeProvider, wait: str) -> None:
    provider.behave("fake", WAITS[wait])
    session = beating.session()
    tab = beating.send(session)
    for stream in (tab, beating.live(session)):
        lines = stream.lines()
        times = [time.monotonic()]
        pings = 0
        while pings < 3:
            line = next(lines)
            times.append(time.monotonic())
            pings += line == b": ping\n"
            if line.startswith(b":"):
                continue
            while line != b"\n":  # a frame is three lines, and nothing lies between them
                line = next(lines)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert max(gaps) <= BEAT_S + LATE_S, gaps
    assert beating.stop(session).status_code == 200


def test_a_stream_that_talks_needs_no_heartbeat(beating: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=60, delay_s=0.01)
    tab = beating.send(beating.session()).rest()
    assert tab.end == "done"
    assert [line for _, line in tab.comments if line == b": ping\n"] == []


def test_heartbeats_leave_the_frames_as_they_are(beating: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=1)
    session = beating.session()
    watched: list[Stream] = [beating.send(session), beating.live(session)]
    lines = watched[0].lines()
    while next(lines) != b": ping\n":
        pass
    provider.release("fake")
    assert watched[1].rest().end == "done"
    assert all(line.count(b"\n") == 1 and line.startswith(b": ") for _, line in watched[1].comments)
