"""gevent's WSGI server, with what event streams and refused bodies need of it."""

import socket
import uuid
from typing import Any

import msgspec
from flask import Flask
from gevent import Timeout
from gevent.pywsgi import Input, WSGIHandler, WSGIServer

from timothy.errors import StartError

DRAIN_S = 5.0
_UNREADABLE = {
    "400": ("Bad Request", "the request's first line or one of its headers is not as HTTP asks"),
    "414": (
        "URI Too Long",
        "the request's first line is too long: its path and query may have some 8,000 bytes",
    ),
}


def listen(app: Flask, host: str, port: int) -> WSGIServer:
    """The server, listening. Its `server_port` is the real one. Raises StartError."""
    server = WSGIServer((host, port), app, handler_class=Handler, log=None)
    try:
        server.start()
    except OSError as error:
        raise StartError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    return server


class Body(Input):
    """What nobody read of it is thrown away so that the client hears the answer, but not for ever."""

    left = False

    def _discard(self) -> None:
        self.left = True
        with Timeout(DRAIN_S, False):  # type: ignore[arg-type]
            super()._discard()  # type: ignore[misc]
            self.left = False


class Handler(WSGIHandler):
    """Hands over the client's socket: a slow viewer is shut through it. Small writes leave at once."""

    wsgi_input: Any

    def get_environ(self) -> dict[str, object]:
        environ = super().get_environ()
        given = self.wsgi_input
        self.wsgi_input = Body(given.rfile, given.content_length, given.socket, given.chunked_input)
        return {**environ, "wsgi.input": self.wsgi_input, "timothy.socket": self.socket}

    def handle(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle()

    def handle_one_request(self) -> Any:
        """What is no request for the application to answer gets an error of the same shape."""
        outcome = super().handle_one_request()
        return (outcome[0], _unreadable(outcome[0])) if isinstance(outcome, tuple) else outcome

    def read_request(self, raw_requestline: str) -> Any:
        """Two lengths of one body leave open where the next request begins (RFC 9112, 6.3)."""
        readable = super().read_request(raw_requestline)
        if readable and len(set(self.headers.get_all("Content-Length", ()))) > 1:
            raise ValueError("more than one Content-Length")
        return readable

    def finalize_headers(self) -> None:
        super().finalize_headers()
        if self.command == "HEAD":  # not even the empty chunk that ends a body
            self.response_use_chunked = False

    def handle_one_response(self) -> None:
        super().handle_one_response()
        if self.wsgi_input.left:  # the next request would be read from the middle of it
            self.close_connection = True

    def _sendall(self, data: Any) -> None:
        """With a single call of the kernel for what it takes at once, as it does a token."""
        sent = self.socket.send(data)
        if sent < len(data):
            self.socket.sendall(memoryview(data)[sent:])
        self.response_length += len(data)


def _unreadable(status: str) -> bytes:
    reason, words = _UNREADABLE[status]
    body = msgspec.json.encode({"error": "bad_request", "message": words})
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"X-Request-Id: {uuid.uuid4()}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
