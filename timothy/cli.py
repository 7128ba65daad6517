"""The command line: one group whose commands join it through the entry points `timothy.commands`.

Nothing of a command is imported before it is asked for, so a slow or broken one costs the others nothing.
"""

import ast
import importlib.util
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from timothy.errors import TimothyError

GROUP = "timothy.commands"
Function = TypeVar("Function", bound=Callable[..., Any])


class Command(click.Command):
    """A command whose errors of Timothy's own are a message and status 1, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. Raises click.ClickException instead of a TimothyError."""
        try:
            return super().invoke(ctx)
        except TimothyError as error:
            raise click.ClickException(error.message) from error


class Commands(Command, click.Group):
    """A group whose commands are entry points: listed without an import, loaded when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all that joined, sorted."""
        return list(_joined())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command `name`, imported now; None when nothing of that name joined."""
        entry = _joined().get(name)
        return None if entry is None else cast(click.Command, entry.load())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with the first sentence of its docstring, read without running its module."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(entry)) for name, entry in _joined().items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="timothy")
def main() -> None:
    """Timothy, a self-hosted assistant that never loses a turn."""


def home_option(command: Function) -> Function:
    """Give `command` the option `--home` as a Path: itself, its group's, TIMOTHY_HOME or the default."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_home,
        help="The folder of all that lasts (TIMOTHY_HOME).",
    )(command)


def summary(entry: EntryPoint) -> str:
    """The first line of the command's docstring, from its source, or what is wrong with that source."""
    try:
        found = importlib.util.find_spec(entry.module)
        if found is None or found.origin is None:
            return "(not installed)"
        tree = ast.parse(Path(found.origin).read_bytes())
    except (ImportError, SyntaxError) as error:
        return f"(broken: {error})"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def _joined() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def _home(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path:
    from timothy.config import default_home

    above = ctx.parent.params.get("home") if ctx.parent else None
    return (value or above or default_home()).absolute()
