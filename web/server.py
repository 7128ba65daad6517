"""gevent's WSGI server, with what event streams and refused bodies need of it."""

import socket
from typing import Any

from flask import Flask
from gevent import Timeout
from gevent.pywsgi import Input, WSGIHandler, WSGIServer

from timothy.errors import StartError

DRAIN_S = 5.0


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
