"""The long turn that once lost its answer, scaled down: half an hour is a second; its five faults come."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import Start, entry
from tests.stories.proxy import IdleCutter
from tests.stories.server import ROOT, Server
from tests.stories.wire import Stream

CEILING_S = 0.6


def through(proxy: IdleCutter, server: Server, session: str) -> Stream:
    body = b'{"message": "think for half an hour"}'
    return Stream(proxy.url, "POST", f"/v1/sessions/{session}/messages", server.headers(), body)


def test_a_proxy_that_cuts_idle_connections_has_nothing_to_cut(
    server: Server, provider: FakeProvider
) -> None:
    """A model that thinks in silence for longer than the proxy's patience."""
    provider.behave("fake", tokens=1, delay_s=1.3)
    with IdleCutter(int(server.url.rpartition(":")[2]), idle_s=0.75) as proxy:
        tab = through(proxy, server, server.session()).rest()
        assert (tab.end, tab.text) == ("done", "t0 ")
        assert proxy.cuts == 0
        assert [line for _, line in tab.comments].count(b": ping\n") >= 2


def test_a_proxy_that_cuts_all_the_same_costs_the_viewer_alone(
    impatient: Server, provider: FakeProvider
) -> None:
    """With heartbeats slower than the proxy: the tab is cut, the turn is not, and the tab comes back."""
    provider.behave("fake", tokens=2, hold=1)
    server = impatient
    session = server.session()
    with IdleCutter(int(server.url.rpartition(":")[2]), idle_s=0.3) as proxy:
        tab = through(proxy, server, session)
        with pytest.raises((EOFError, ConnectionError)):
            tab.rest()
        assert proxy.cuts == 1
    assert "done" not in tab.kinds
    back = server.live(session, f"{tab.turn_id}:{tab.events[-1]['seq']}")
    provider.release("fake")
    assert back.rest().end == "done"
    assert tab.text + back.text == "t0 t1 "
    assert server.evidence(session, tab.turn_id)["payload"]["text"] == "t0 t1 "


LOST_SENDS = {
    "the driver's last send, after text": Behaviour(tokens=2, end="cut"),
    "the driver's last send, without chunked coding": Behaviour(tokens=2, end="cut", chunked=False),
    "the connection, after text": Behaviour(tokens=2, end="reset"),
}


@pytest.mark.parametrize("lost", LOST_SENDS)
def test_a_lost_last_send_of_the_driver_is_named(hasty: Server, provider: FakeProvider, lost: str) -> None:
    provider.behave("fake", LOST_SENDS[lost])
    session = hasty.session()
    tab = hasty.send(session).rest()
    evidence = hasty.evidence(session, tab.turn_id)
    assert (tab.end, evidence["kind"]) == ("stream_cut", "pending_state")
    assert evidence["payload"]["text"] == tab.text == "t0 t1 "


def test_a_lost_last_send_of_the_loop_is_named(scripted: Server) -> None:
    """The worker dies in mid-stream without a word: the turn hears of it."""
    session = scripted.session()
    tab = scripted.send(session, "break inside").rest()
    evidence = scripted.evidence(session, tab.turn_id)
    assert tab.meta["outcome"] == "failed"
    assert (evidence["kind"], evidence["payload"]["text"]) == ("pending_state", "so far ")
    assert scripted.send(session, "quick").rest().end == "done"


@pytest.fixture(scope="module")
def remote(shared_servers: Start, provider: FakeProvider) -> Iterator[tuple[Server, "subprocess.Popen[str]"]]:
    """A server whose chain runs in a gateway of its own, a process that a test may kill."""
    home = shared_servers(entry(provider), running=False).home
    environment = {"TIMOTHY_GATEWAY_TOKEN": "between-us"}
    command = [sys.executable, "-m", "web.gateway", "--port", "0", "--home", str(home)]
    with open(home / "gateway.log", "w") as log:
        gateway = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert gateway.stdout is not None
    url = gateway.stdout.readline().split()[-1]
    yield shared_servers("", GATEWAY_URL=url, **environment), gateway
    gateway.kill()
    gateway.wait()
    gateway.stdout.close()


def test_a_gateway_that_dies_after_text_is_named(
    remote: tuple[Server, "subprocess.Popen[str]"], provider: FakeProvider
) -> None:
    server, gateway = remote
    session = server.session()
    assert server.send(session).rest().end == "done"
    provider.behave("fake", tokens=4, hold=2)
    tab = server.send(session)
    while tab.text != "t0 t1 ":
        tab.until("text_delta")
    gateway.kill()
    assert tab.rest().end == "gateway_stream_cut"
    evidence = server.evidence(session, tab.turn_id)
    assert (evidence["kind"], evidence["payload"]["text"]) == ("pending_state", "t0 t1 ")
    assert server.turn(session, tab.turn_id)["outcome"] == "failed"


def test_a_ceiling_that_fires_as_the_end_comes_makes_one_end(hasty: Server, provider: FakeProvider) -> None:
    """The provider's last word, aimed at the very moment of the ceiling, again and again."""
    ends = []
    for number in range(3):
        provider.behave("fake", tokens=2, hold="end")
        session = hasty.session()
        began = time.monotonic()
        tab = hasty.send(session)
        while tab.text != "t0 t1 ":
            tab.until("text_delta")
        time.sleep(max(0.0, began + CEILING_S - 0.004 + number * 0.004 - time.monotonic()))
        provider.release("fake")
        ends.append(tab.rest().end)
        evidence = hasty.evidence(session, tab.turn_id)
        assert evidence["payload"].get("code") == (None if ends[-1] == "done" else "turn_timeout")
        assert evidence["payload"]["text"] == "t0 t1 "
        assert hasty.send(session, model="fake").status == 200
        assert hasty.stop(session).status_code in (200, 404)
    assert set(ends) <= {"done", "turn_timeout"}
