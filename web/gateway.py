"""`timothy gateway`: the chain of providers as an HTTP service of its own."""

import os
from pathlib import Path

import click

from timothy.cli import Command, home_option
from timothy.errors import StartError
from web.patch import patch

TOKEN_VARIABLE = "TIMOTHY_GATEWAY_TOKEN"
GRACE_S = 8.0


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8301,
    show_default=True,
    help="The port; 0 picks a free one.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
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


def run(host: str, port: int, config_file: Path | None, home: Path, token: str) -> None:
    """Serve until SIGTERM or Ctrl-C, then end every stream by name and go; a second Ctrl-C ends at once."""
    import logging

    from gevent.event import Event

    from timothy.config import chain, load
    from timothy.gateway.local import LocalGateway
    from web.gateway_app import create_app
    from web.gateway_relay import Streams
    from web.server import listen
    from web.signals import on_signals

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = load(home, config_file)
    local = LocalGateway(chain(config), home)
    streams = Streams(config.stream.heartbeat_s)
    server = listen(create_app(local, config, token, streams), host, port)
    stop = Event()
    on_signals(stop)
    click.echo(f"Timothy's gateway listens on http://{server.server_host}:{server.server_port}")
    stop.wait()
    streams.shut_down(GRACE_S)
    server.stop(timeout=1)
    local.close()


if __name__ == "__main__":
    gateway()
