"""A home with a workspace, the tools, and a web server that the tests may be asked by."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from timothy.config import Config, Tools
from timothy.tools.base import Context, Tool, find, workspace
from timothy.tools.notes import Notes

CONFIG = Config(tools=Tools(searxng_url="http://127.0.0.1:9"))  # a port where nobody listens
Page = tuple[int, dict[str, str], bytes]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    home = tmp_path / "home"
    home.mkdir()
    return Context(workspace(CONFIG, home), home, Notes(home), "a-session", CONFIG.tools)


@pytest.fixture(scope="session")
def tools() -> dict[str, Tool]:
    return find(CONFIG)


class Site:
    """A small web server: `pages` says what each path answers, `asked` what was asked for."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.origin = "http://{}:{}".format(*server.server_address)
        self.port = server.server_address[1]
        self.pages: dict[str, Page | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, str]] = []

    def serve_tls(self, certificate: Path) -> None:
        """From now on speak TLS, with the key and the certificate in one file."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append((handler.path, handler.headers["Host"]))
        page = self.pages.get(handler.path.partition("?")[0], (404, {}, b"nothing here"))
        if callable(page):
            page(handler)
            return
        status, headers, body = page
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def serve() -> Iterator[Callable[[str], Site]]:
    """Start a web server on an address of this computer."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(address: str = "127.0.0.1", port: int = 0) -> Site:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def handle(self) -> None:
                with suppress(ConnectionError, ssl.SSLError):  # the client may leave when it likes
                    super().handle()

            def log_message(self, *_: object) -> None:
                """Tests read what was asked from the site, not from the terminal."""

        server = ThreadingHTTPServer((address, port), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        site = Site(server)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        running.append((server, thread))
        return site

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site(serve: Callable[[], Site]) -> Site:
    return serve()
