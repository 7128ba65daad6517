"""Whatever ends a turn, and however many things do at once: one terminal event, last, and one evidence."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.server import Server
from tests.stories.wire import Stream

ENDINGS = {
    "done": Behaviour(tokens=3, hold="end"),
    "cut": Behaviour(tokens=3, hold="end", end="cut"),
    "reset": Behaviour(tokens=3, hold="end", end="reset"),
    "error": Behaviour(tokens=3, hold="end", end="error"),
    "garbage": Behaviour(tokens=3, hold="end", end="garbage"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_stop_that_meets_another_end_makes_one_end(
    server: Server, provider: FakeProvider, ending: str
) -> None:
    """Two stops, the provider's end and a viewer who leaves, all in the same moment."""
    chance = random.Random(ending)
    for _ in range(8):
        provider.behave("fake", ENDINGS[ending])
        session = server.session()
        tab = server.send(session)
        leaver = server.live(session)
        while tab.text != "t0 t1 t2 ":
            tab.until("text_delta")
        acts: list[Callable[[], object]] = [lambda: provider.release("fake"), leaver.close]
        acts += [lambda session=session: server.stop(session)] * 2
        _at_once(acts, chance)
        tab.rest()
        evidence = server.evidence(session, tab.turn_id)
        told = evidence["payload"].get("code") or "done"
        assert tab.end == told
        assert server.turn(session, tab.turn_id)["outcome"] == tab.meta["outcome"]
        assert evidence["payload"]["text"] == tab.text == "t0 t1 t2 "


def _at_once(acts: list[Callable[[], object]], chance: random.Random) -> None:
    def perform(act: Callable[[], object], pause: float) -> None:
        time.sleep(pause)  # up to 5 ms, so that each may be the first
        act()

    threads = [threading.Thread(target=perform, args=(act, chance.uniform(0, 0.005))) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_late_end_of_the_provider_is_not_heard(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tokens=1, end="hang"), Behaviour(tokens=2))
    session = server.session()
    first = server.send(session)
    first.until("text_delta")
    server.stop(session)
    second = server.send(session).rest()
    assert (first.rest().end, second.end) == ("stopped", "done")
    assert second.text == "t0 t1 "
    assert server.evidence(session, first.turn_id)["payload"]["text"] == "t0 "
    assert server.evidence(session, second.turn_id)["payload"]["text"] == "t0 t1 "


def test_whoever_watches_sees_the_same_one_end(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=3, hold=2, end="error", message="the wire burnt", error_code=500)
    session = server.session()
    streams: list[Stream] = [server.send(session)]
    streams[0].until("text_delta")
    streams += [server.live(session, cursor) for cursor in ("0", "2", "999")]
    provider.release("fake")
    ends = {(stream.rest().end, stream.terminal["message"], stream.meta["seq"]) for stream in streams}
    assert len(ends) == 1
    assert all(stream.closed_cleanly for stream in streams), "after meta the stream closes"
