"""`python -m web.threads`: the same server in the world of plain threads, for tests and the benchmark."""

import io
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from werkzeug.serving import WSGIRequestHandler, make_server

from actors.system import System
from timothy import config as configuration
from timothy import home as homes
from timothy.cli import Command, home_option
from web.app import create_app
from web.serve import check_host, link, shut_down
from web.signals import on_signals

SIGNAL_CHECK_S = 0.2
POLL_S = 0.05  # how long the end of listening may take


class _Ending(io.BufferedReader):
    """What a client sends; a connection that was reset has ended.

    werkzeug reads what is left of a request before it closes the response: an error there would keep the
    response's viewer for ever.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            return super().read(size)
        except ConnectionError:
            return b""


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.rfile = _Ending(self.rfile.detach())

    def log_request(self, *_: Any) -> None:
        """The application logs what matters."""


class _Stoppable:
    """werkzeug's server with the `stop` that gevent's has."""

    def __init__(self, server: object) -> None:
        self._server = server

    def stop(self, timeout: float) -> None:
        """Stop listening."""
        self._server.shutdown()  # type: ignore[attr-defined]


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1")
@click.option("--port", default=0)
@click.option("--config", "config_file", type=click.Path(path_type=Path))
@home_option
def main(host: str, port: int, config_file: Path | None, home: Path) -> None:
    """Serve without gevent."""
    homes.prepare(home)
    check_host(host, homes.user_token())
    with closing(System(configuration.load(home, config_file), home)) as system:
        token = homes.token(home)
        app = create_app(system, token)
        server: Any = make_server(host, port, app, threaded=True, request_handler=_Handler)
        server.daemon_threads = True
        stopping = threading.Event()
        on_signals(stopping)
        threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
        click.echo(f"Timothy listens: {link(host, server.server_port, token)}")
        while not stopping.wait(SIGNAL_CHECK_S):
            pass  # a signal that another thread took is handled here, but does not end this wait
        shut_down(system, _Stoppable(server))


if __name__ == "__main__":
    main()
