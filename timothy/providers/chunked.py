"""Chunked bodies, read a buffer at a time: one call gives all the chunks that have come, not one of them.

A model's tokens are a chunk each, and the standard library's reader costs several times what their JSON does.
The coding is RFC 9112, section 7.1. What follows the last chunk is not read: no connection is used twice.
"""

import http.client
import io
import socket
from typing import Any

import urllib3

LINE_BYTES = 4096
LINE_END = b"\r\n"


class Chunks:
    """Bytes of the coding in, in any split; the bytes of the body out. `ended` after the last chunk."""

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        self._gap = 0
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """The body's bytes in `data`. Raises http.client.IncompleteRead for what is no chunk."""
        if self._rest:
            if self._rest == LINE_END and (whole := _whole(data)):
                return whole
            data, self._rest = self._rest + data, b""
        pieces, at = [data[: self._left]], self._left
        self._left = max(0, at - len(data))
        while at <= len(data) and not self.ended:
            # the line end after a chunk's data belongs to the next size's line
            end = data.find(b"\n", at + self._gap)
            if end < 0:
                self._keep(data[at:])
                break
            size = _size(data[at:end])
            self.ended, self._gap = not size, 2
            pieces.append(data[end + 1 : end + 1 + size])
            at = end + 1 + size
            self._left = max(0, at - len(data))
        return b"".join(pieces)

    def _keep(self, rest: bytes) -> None:
        if len(rest) > LINE_BYTES:
            raise http.client.IncompleteRead(b"")
        self._rest = rest


def _whole(data: bytes) -> bytes:
    """The one chunk that `data` is, from its size to its line end, as a token comes; else b""."""
    start = data.find(b"\n") + 1
    if not start or data[-2:] != LINE_END:
        return b""
    stop = start + _size(data[:start])
    return data[start:stop] if stop + 2 == len(data) else b""


def _size(line: bytes) -> int:
    try:
        size = int(line.partition(b";")[0], 16)
    except ValueError:
        size = -1
    if size < 0:
        raise http.client.IncompleteRead(b"")
    return size


class Response(http.client.HTTPResponse):
    """An answer whose `read1` gives what is there."""

    def __init__(self, connection: socket.socket, *details: Any, **more: Any) -> None:
        super().__init__(connection, *details, **more)
        self._receive = connection.recv
        self._chunks: Chunks | None = None

    def read1(self, n: int = -1, /) -> bytes:
        """Up to `n` bytes of the body as soon as there are some; b"" at its end.

        Raises http.client.IncompleteRead when the body breaks off.
        """
        if not self.chunked or self.fp is None or n <= 0:
            return self._unchunked(n)
        if self._chunks is None:
            # this empties the headers' buffer; what follows is read past it, without its costs
            self._chunks = Chunks()
            coded = self.fp.read1(max(n, io.DEFAULT_BUFFER_SIZE))
        else:
            coded = b"" if self._chunks.ended else self._receive(n)
        return self._decoded(self._chunks, coded, n)

    def _decoded(self, chunks: Chunks, coded: bytes, n: int) -> bytes:
        while not chunks.ended:
            if not coded:
                raise http.client.IncompleteRead(b"")
            data = chunks.feed(coded)
            if data:
                return data
            coded = b"" if chunks.ended else self._receive(n)
        return b""

    def _unchunked(self, n: int) -> bytes:
        data = super().read1(n)
        if not data and self.length:
            raise http.client.IncompleteRead(b"", self.length)
        return data


def answer(connection: http.client.HTTPConnection) -> http.client.HTTPResponse | urllib3.HTTPResponse:
    """The answer on `connection`, its status and headers read. Only a packed body needs urllib3's reader."""
    response = http.client.HTTPConnection.getresponse(connection)
    if response.getheader("Content-Encoding", "identity") == "identity":
        return response
    return urllib3.HTTPResponse(
        body=response,
        headers=urllib3.HTTPHeaderDict(response.headers.items()),
        status=response.status,
        preload_content=False,
        original_response=response,
    )
