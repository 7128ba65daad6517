"""One stream of the separate gateway: events pumped from the chain, written as they come, with heartbeats.

The chain may block for minutes in a provider, so a thread of its own pumps it; the response's thread writes
what has piled up in one piece. One ticker serves all streams: it wakes the silent ones for a heartbeat and
looks at every client's socket, because a server that only writes sees a vanished client only at a write.
"""

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator

from gevent import monkey

from timothy.cancel import Cancel
from timothy.conversation import ModelRequest
from timothy.errors import GatewayStreamCut, ServerShutdown, Stopped
from timothy.events import AttemptEnded, Error, Event, TextDelta, encode
from timothy.gateway.base import Gateway
from timothy.stream import failure, terminated

GREETING = b": timothy gateway\n"
PING = b": ping\n"
MOST_WAITING = 2000  # frames; then the chain, and so the provider, waits for the reader
LOOK_S = 0.05
LONGEST_SILENCE_S = 20.0
logger = logging.getLogger("timothy.gateway")

# gevent's sockets wait in recv whatever the flags say, so the look goes through a native one.
_NativeSocket: type[socket.socket] = monkey.get_original("socket", "socket")


class Relay:
    """The body of one response: an iterator of bytes with `close()`; the chain starts at the second piece."""

    def __init__(self, gateway: Gateway, request: ModelRequest, client: socket.socket, streams: "Streams"):
        self._gateway, self._request, self._streams = gateway, request, streams
        self._cancel = Cancel()
        self._client = _NativeSocket(fileno=os.dup(client.fileno()))
        self._frames: deque[bytes] = deque()
        self._woken, self._room = threading.Event(), threading.Event()
        self._finished = self._closed = self._shutdown = False
        self._pump: threading.Thread | None = None
        self._written_at = time.monotonic()
        self._greeted = False
        streams.join(self)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The greeting, then whatever piled up; waits while there is nothing."""
        self._written_at = time.monotonic()
        if not self._greeted:
            self._greeted = True
            return GREETING
        if self._pump is None:
            self._pump = threading.Thread(target=self._run, name="gateway-pump", daemon=True)
            self._pump.start()
        while True:
            self._woken.clear()  # before the look, else a wake in between is lost
            finished = self._finished  # before the frames: the last of them comes before the flag
            piece = b"".join(self._frames.popleft() for _ in range(len(self._frames)))
            self._room.set()
            if piece:
                self._written_at = time.monotonic()
                return piece
            if finished or self._closed:
                self.close()  # not every server calls it when the client is gone by now
                raise StopIteration
            self._woken.wait()

    def close(self) -> None:
        """The response is over, read or not: the provider is let go. Any thread, any number of times."""
        self._closed = True
        self._cancel.cancel()
        self._room.set()
        self._woken.set()
        self._streams.leave(self)
        self._client.close()

    def tick(self, heartbeat_s: float) -> None:
        """Called every LOOK_S by the ticker: notice a client that left, keep a silent stream alive."""
        if self._gone():
            self.close()
        elif time.monotonic() - self._written_at >= heartbeat_s:
            self._written_at = time.monotonic()
            self._put(PING)

    def shut_down(self) -> None:
        """End the stream as `server_shutdown`; the attempt's last facts still go out before it."""
        self._shutdown = True
        self._cancel.cancel()

    def _run(self) -> None:
        try:
            for event in terminated(self._gateway.stream(self._request, self._cancel), cut=GatewayStreamCut):
                told = event if type(event) is TextDelta else self._told(event)
                self._put(b"data: " + encode(told) + b"\n\n")
                if len(self._frames) > MOST_WAITING:
                    self._wait_for_room()
        finally:
            self._finished = True
            self._woken.set()

    def _told(self, event: Event) -> Event:
        """`event` as the brain hears it; an attempt's end is logged too."""
        if isinstance(event, AttemptEnded):
            label = self._request.request_id or "-"
            outcome = f"{event.provider} {event.status} {event.code or ''}".strip()
            logger.info(
                "request %s turn %s: %s, %d ms", label, self._request.turn_id, outcome, event.duration_ms
            )
        if self._shutdown and isinstance(event, Error) and event.code == Stopped.code:
            return failure(ServerShutdown("the gateway is shutting down"))
        return event

    def _put(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._woken.set()

    def _wait_for_room(self) -> None:
        self._room.clear()
        if len(self._frames) > MOST_WAITING and not self._closed:
            self._room.wait()

    def _gone(self) -> bool:
        try:
            return not self._client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Streams:
    """All streams that run, and the one ticker that looks after them."""

    def __init__(self, heartbeat_s: float) -> None:
        self._heartbeat_s = min(heartbeat_s, LONGEST_SILENCE_S)
        self._running: set[Relay] = set()
        self._changed = threading.Condition()
        self.closing = False
        threading.Thread(target=self._tick, name="gateway-ticker", daemon=True).start()

    def join(self, relay: Relay) -> None:
        """`relay` runs from now on."""
        with self._changed:
            self._running.add(relay)
            self._changed.notify_all()

    def leave(self, relay: Relay) -> None:
        """`relay` is over."""
        with self._changed:
            self._running.discard(relay)
            self._changed.notify_all()

    def shut_down(self, grace_s: float) -> bool:
        """Take no more streams, end those that run; True when all were written out within `grace_s`."""
        with self._changed:
            self.closing = True
            running = list(self._running)
            self._changed.notify_all()
        for relay in running:
            relay.shut_down()
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, grace_s)

    def _tick(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._running or self.closing)
                if self.closing and not self._running:
                    return
                running = list(self._running)
            for relay in running:
                relay.tick(self._heartbeat_s)
            time.sleep(LOOK_S)
