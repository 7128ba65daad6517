"""A viewer that does not read delays nobody: not the turn, not the others; in the end it is cut loose."""

import socket
import time

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.server import Server, eventually

LONG = "x" * 65_000
CUT_WITHIN_S = 5 + 5 + 2  # a stall, the cut, and a busy machine


@pytest.mark.once
def test_a_viewer_that_never_reads_delays_nobody_and_is_cut_loose(
    server: Server, provider: FakeProvider
) -> None:
    """A full socket, then more than 64 events: let go within ten seconds, with no `meta`."""
    provider.behave("fake", text=f"{LONG} " * 160 + "short " * 200, delay_s=0.002, hold="end")
    session = server.session()
    sender = server.send(session)
    slow = server.live(session, receive_buffer=4096)
    began = time.monotonic()
    while sender.text.count("short") < 200:
        sender.until("text_delta")
    assert time.monotonic() - began < 5, "the others see the text as it comes"
    assert viewers(server) == 2
    eventually(lambda: viewers(server) == 1, CUT_WITHIN_S)
    assert server.read(session)["turn_active"] is True
    provider.release("fake")
    assert sender.rest().end == "done"
    assert b'"type":"meta"' not in _drained(slow.connection)
    assert server.evidence(session, sender.turn_id)["payload"]["text"] == sender.text


def viewers(server: Server) -> int:
    metrics = server.call("GET", "/metrics").text
    return int(metrics.split("\ntimothy_viewers ")[1].split("\n")[0])


def _drained(connection: socket.socket) -> bytes:
    data = b""
    try:
        while piece := connection.recv(1 << 20):
            data = data[-100_000:] + piece
    except ConnectionResetError:
        return data
    return data


def test_a_viewer_that_reads_late_but_reads_gets_everything(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", text=f"{LONG} " * 40, delay_s=0.001)
    session = server.session()
    sender = server.send(session)
    late = server.live(session, receive_buffer=4096)
    sender.rest()
    assert [frame.raw for frame in late.rest().frames] == [frame.raw for frame in sender.frames]
