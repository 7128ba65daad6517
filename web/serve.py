"""`timothy serve`: the server under gevent, from the first import to the last goodbye."""

import gc
import ipaddress
import logging
import os
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from timothy.cli import Command, home_option
from timothy.errors import ConfigError
from web.patch import patch

SWITCH_S = 0.0005
GRACE_S = 10
EXIT_LATE = 70

logger = logging.getLogger(__name__)


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8300,
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
def serve(host: str, port: int, config_file: Path | None, home: Path) -> None:
    """Run the server and print its sign-in link."""
    patch()
    run(host, port, config_file, home)


def check_host(host: str, user_token: str) -> None:
    """Raises ConfigError for an address beyond loopback without a token that the user set."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback and not user_token:
        raise ConfigError(
            f"--host {host} can be reached from other machines: set TIMOTHY_API_TOKEN to a token of your own,"
            " or listen on 127.0.0.1"
        )


def run(host: str, port: int, config_file: Path | None, home: Path) -> None:
    """Serve until SIGTERM or Ctrl-C; a second Ctrl-C ends at once."""
    from gevent.event import Event

    from actors.system import System
    from timothy import config as configuration
    from timothy import home as homes
    from web.app import create_app
    from web.server import listen
    from web.signals import on_signals

    _log_to_stderr()
    homes.prepare(home)
    check_host(host, homes.user_token())
    config = configuration.load(home, config_file)
    with closing(System(config, home)) as system:
        token = homes.token(home)
        server = listen(create_app(system, token), host, port)
        shorten_pauses()
        stopping = Event()
        on_signals(stopping)
        click.echo(f"Timothy listens: {link(host, server.server_port, token)}")
        stopping.wait()
        shut_down(system, server)


def shorten_pauses() -> None:
    """What holds the loop up holds every stream up."""
    sys.setswitchinterval(SWITCH_S)  # so long may the database's native thread keep the loop waiting
    gc.freeze()  # what is loaded by now stays: no collection needs to look through it again


def link(host: str, port: int | None, token: str) -> str:
    """The sign-in link to print."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/#token={token}"


def shut_down(system: Any, server: Any) -> None:
    """In order: no new sends, every turn ends, viewers drain, the listener, the actors, the disk.

    What is not done after GRACE_S is left to the recovery of the next start.
    """
    click.echo("Timothy stops: running turns end first; Ctrl-C again to stop at once", err=True)
    watchdog = threading.Timer(GRACE_S, _end_at_once)
    watchdog.daemon = True
    watchdog.start()
    system.end_turns()
    server.stop(timeout=1)
    system.close()


def _end_at_once() -> None:
    logger.critical("stopping took longer than %d s: the next start settles the rest", GRACE_S)
    os._exit(EXIT_LATE)


def _log_to_stderr() -> None:
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr)
    logging.getLogger("pykka").setLevel(logging.WARNING)


if __name__ == "__main__":
    serve()
