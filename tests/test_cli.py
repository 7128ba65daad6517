"""The command line: commands join by name, and none of them slows or breaks another."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from timothy import cli
from timothy.errors import ConfigError

MODULE = '''
import click

@click.command()
@click.argument("word")
def echo(word):
    """Say it back.

    More about it.
    """
    click.echo(word)
'''


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command line with one good command, one whose import fails, and two that are not there."""
    (tmp_path / "good_command.py").write_text(MODULE)
    (tmp_path / "broken_command.py").write_text("raise RuntimeError('half installed')")
    (tmp_path / "garbled_command.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("good_command", "broken_command", "garbled_command"):
        sys.modules.pop(module, None)
    found = [
        EntryPoint("echo", "good_command:echo", cli.GROUP),
        EntryPoint("broken", "broken_command:broken", cli.GROUP),
        EntryPoint("garbled", "garbled_command:garbled", cli.GROUP),
        EntryPoint("absent", "no_such_module:absent", cli.GROUP),
        EntryPoint("nested", "no_such_package.inner:nested", cli.GROUP),
    ]
    monkeypatch.setattr(
        cli, "_joined", lambda: {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}
    )


def test_a_command_runs_though_another_is_broken(joined: None) -> None:
    result = CliRunner().invoke(cli.main, ["echo", "hello"])
    assert (result.exit_code, result.output) == (0, "hello\n")


def test_the_help_lists_every_command_and_imports_none(joined: None) -> None:
    result = CliRunner().invoke(cli.main, ["--help"])
    assert result.exit_code == 0
    for name, meaning in {
        "echo": "Say it back.",
        "broken": "",
        "garbled": "(broken: invalid syntax",
        "absent": "(not installed)",
        "nested": "(broken: No module named",
    }.items():
        assert any(
            line.split(None, 1)[0] == name and meaning in line for line in result.output.splitlines()[-6:]
        )
    assert not {"good_command", "broken_command"} & set(sys.modules)


def test_an_unknown_command_is_named(joined: None) -> None:
    result = CliRunner().invoke(cli.main, ["fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.output


def test_an_error_of_timothy_is_one_line_and_no_traceback() -> None:
    @click.group(cls=cli.Commands)
    def group() -> None:
        raise ConfigError("timothy.toml: key turn.ceiling_s: too small")

    result = CliRunner().invoke(group, ["model"])
    assert (result.exit_code, result.output) == (1, "Error: timothy.toml: key turn.ceiling_s: too small\n")


def test_the_home_is_the_commands_own_or_its_groups_or_the_environments(tmp_path: Path) -> None:
    @click.group()
    @cli.home_option
    def outer(home: Path) -> None: ...

    @outer.command()
    @cli.home_option
    def inner(home: Path) -> None:
        click.echo(home)

    def home(*arguments: str) -> str:
        variables = {"TIMOTHY_HOME": str(tmp_path / "variable")}
        return CliRunner().invoke(outer, arguments, env=variables).output.strip()

    assert home("inner", "--home", "/a") == "/a"
    assert home("--home", "/b", "inner") == "/b"
    assert home("--home", "/b", "inner", "--home", "/a") == "/a"
    assert home("inner") == str(tmp_path / "variable")
    assert home("inner", "--home", "here") == str(Path.cwd() / "here")


@pytest.mark.once
def test_a_command_may_still_patch_what_it_imports() -> None:
    """gevent's patch comes too late once ssl is there."""
    late = "{'ssl', 'requests', 'gevent', 'web', 'actors'}"
    code = f"import sys, timothy.cli; sys.exit(bool({late} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
