"""A setting that would break a promise, or means nothing, stops the start and says what is allowed."""

import socket
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import entry
from tests.stories.server import Server
from timothy.config import load
from timothy.errors import ConfigError
from timothy.tools.base import find
from web.gateway import gateway
from web.serve import serve

PROVIDER = '[[providers]]\nname = "p"\ndriver = "local"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[stream]\nheartbeat_s = 21\n",
            "stream.heartbeat_s: 21 is out of range; allowed: above 0, at most 20",
        ),
        ("[turn]\ncheckpoint_s = 3\n", "turn.checkpoint_s: 3 is out of range; allowed: above 0, at most 2"),
        (f"{PROVIDER}price_in = -1.0\n", "price_in: -1 is out of range; allowed: 0 or more"),
        (f"{PROVIDER}price_out = nan\n", "price_out: nan is out of range; allowed: 0 or more"),
        ('[tools]\nallow = ["write_fil"]\n', "tools.allow: there is no tool 'write_fil'; allowed: calculate"),
        ('[tools]\ndeny = ["nobody.*"]\n', "tools.deny: there is no tool 'nobody.*'; allowed: calculate"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "timothy.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        find(load(tmp_path, environment={}))
    assert words in refused.value.message


def test_a_bad_value_of_the_environment_is_not_blamed_on_the_file_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, environment={"TIMOTHY_STREAM_HEARTBEAT_S": "99"})
    assert "the environment's TIMOTHY_*" in refused.value.message
    assert "stream.heartbeat_s: 99 is out of range; allowed: above 0, at most 20" in refused.value.message


def test_all_that_names_tools_is_taken(tmp_path: Path) -> None:
    allow = '[tools]\nallow = ["web_search", "run_command:git *", "*", "notes.*", "notes.add"]\n'
    (tmp_path / "timothy.toml").write_text(f'{allow}[[mcp]]\nname = "notes"\ncommand = "notes"\n')
    assert "web_search" not in find(load(tmp_path, environment={}))  # known, but not configured


@pytest.mark.once
def test_a_port_that_is_taken_is_named(tmp_path: Path, provider: FakeProvider) -> None:
    server = Server("gevent", tmp_path, entry(provider))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = server.refused("--port", str(port))
    assert f"cannot listen on 127.0.0.1, port {port}" in words


@pytest.mark.parametrize("command", [serve, gateway])
@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_cannot_be_is_named(command: click.Command, port: str) -> None:
    result = CliRunner().invoke(command, ["--port", port])
    assert result.exit_code == 2
    assert "--port" in result.output and port in result.output
