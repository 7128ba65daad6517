"""No stream is silent for longer than promised, whatever the turn waits for; a heartbeat is one line."""

import itertools
import threading
import time

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.server import Server
from tests.stories.wire import Stream

BEAT_S = 0.4
LATE_S = 0.35  # how much a busy machine may add

WAITS = {
    "for the provider's headers": Behaviour(hold="headers"),
    "for the first token": Behaviour(tokens=2, hold=0),
    "in the middle of the text": Behaviour(tokens=2, hold=1),
    "while the provider sends keepalives": Behaviour(tokens=2, hold=1, keepalive_s=0.05),
    "for a permission": Behaviour(
        tools=({"name": "write_file", "arguments": {"path": "a", "content": "b"}},)
    ),
}


def test_a_silent_stream_beats_whatever_it_waits_for(server: Server, provider: FakeProvider) -> None:
    """All the waits at the same time, each watched by its sender and by another."""
    sessions = [server.session() for _ in WAITS]
    gaps: dict[str, list[float]] = {}
    watchers = []
    for number, wait in enumerate(WAITS):
        session = sessions[number]
        provider.behave("fake", WAITS[wait])
        tab = server.send(session)
        provider.wait_request("fake", number + 1)  # it has its behaviour
        for stream, name in ((tab, wait), (server.live(session), f"{wait}, seen by another")):
            watchers.append(threading.Thread(target=watch, args=(stream, name, gaps)))
            watchers[-1].start()
    for watcher in watchers:
        watcher.join()
    assert len(gaps) == 2 * len(WAITS)
    assert {name: most for name, between in gaps.items() if (most := max(between)) > BEAT_S + LATE_S} == {}
    assert {server.stop(session).status_code for session in sessions} == {200}


def watch(stream: Stream, name: str, gaps: dict[str, list[float]]) -> None:
    """The seconds between what comes, until three heartbeats have come."""
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
    gaps[name] = [after - before for before, after in itertools.pairwise(times)]


def test_a_stream_that_talks_beats_too(server: Server, provider: FakeProvider) -> None:
    """A comment at least so often "from the first byte on": whoever counts comments is not let down."""
    provider.behave("fake", tokens=75, delay_s=0.02)
    tab = server.send(server.session()).rest()
    assert tab.end == "done"
    times = [at for at, _ in tab.comments]
    gaps = [after - before for before, after in itertools.pairwise([*times, tab.frames[-1].at])]
    assert len(times) > 2 and max(gaps) <= BEAT_S + LATE_S, gaps


def test_heartbeats_leave_the_frames_as_they_are(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=1)
    session = server.session()
    watched: list[Stream] = [server.send(session), server.live(session)]
    lines = watched[0].lines()
    while next(lines) != b": ping\n":
        pass
    provider.release("fake")
    assert watched[1].rest().end == "done"
    assert all(line.count(b"\n") == 1 and line.startswith(b": ") for _, line in watched[1].comments)
