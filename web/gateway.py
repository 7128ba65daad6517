"""`timothy gateway`: the chain of providers as an HTTP service of its own."""

import os
import sys
from pathlib import Path

import click

from timothy.cli import Command, home_option
from timothy.errors import StartError

TOKEN_VARIABLE = "TIMOTHY_GATEWAY_TOKEN"
GRACE_S = 8.0


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8301, show_default=True, help="The port; 0 picks a free one.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration; by default timothy.toml in the home, where there is one.",
)
@home_option
def gateway(host: str, port: int, config_file: Path | None, home: Path) -> None:
    """Run the gateway as its own service.

    It asks for the token in TIMOTHY_GATEWAY_TOKEN. The server that uses it is started with GATEWAY_URL and
    the same token.
    """
    patch()
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise StartError(f"set {TOKEN_VARIABLE}: the gateway serves nobody without a token")
    run(host, port, config_file, home, token)


def patch() -> None:
    """Put gevent under the standard library, before anything that opens sockets is imported."""
    from gevent import monkey

    if monkey.is_module_patched("socket"):
        return
    if "ssl" in sys.modules:
        raise StartError("ssl was imported before gevent's patch; start `timothy gateway` by itself")
    monkey.patch_all()


def run(host: str, port: int, config_file: Path | None, home: Path, token: str) -> None:
    """Serve until SIGTERM or Ctrl-C, then end every stream by name and go."""
    import logging
    import signal

    import gevent
    from gevent.event import Event
    from gevent.pywsgi import WSGIServer

    from timothy.config import chain, load
    from timothy.gateway.local import LocalGateway
    from web.gateway_app import create_app
    from web.gateway_relay import Streams

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = load(home, config_file)
    local = LocalGateway(chain(config), home)
    streams = Streams(config.stream.heartbeat_s)
    app = create_app(local, config, token, streams)
    server = WSGIServer((host, port), app, handler_class=_handler(), log=None)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, stop.set)
    server.start()
    click.echo(f"Timothy's gateway listens on http://{server.server_host}:{server.server_port}")
    stop.wait()
    streams.shut_down(GRACE_S)
    server.stop(timeout=1)
    local.close()


def _handler() -> type:
    """pywsgi's handler, with the client's socket in the environment: only it tells that a client left."""
    from gevent.pywsgi import WSGIHandler

    class Handler(WSGIHandler):
        def get_environ(self) -> dict[str, object]:
            return {**super().get_environ(), "timothy.socket": self.socket}

    return Handler


if __name__ == "__main__":
    gateway()
