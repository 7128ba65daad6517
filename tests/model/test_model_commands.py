"""`timothy model`: what is there, in plain words."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from timothy.cli import main
from timothy.model import installed
from timothy.model.commands import model


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(model, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_an_empty_home_is_told_what_to_do(tmp_path: Path) -> None:
    status, output = run("--home", tmp_path)
    assert status == 0
    assert f"engine   xllamacpp {installed.engine()}" in output
    assert "weights  not there: timothy model fetch" in output
    assert "in use   none: the embedded model's weights are not on this machine" in output


def test_weights_that_are_there_are_shown_with_their_size(embedded_home: Path) -> None:
    assert run("--home", embedded_home)[1].count(f"{installed.weights(embedded_home)} (98 MB)") == 2
    assert "are there" in run("fetch", "--home", embedded_home)[1]


def test_another_file_can_be_used_and_given_up_again(embedded_home: Path, tmp_path: Path) -> None:
    better = tmp_path / "better.gguf"
    better.write_bytes(installed.MAGIC)
    assert run("use", better, "--home", embedded_home) == (0, f"In use from the next start on: {better}\n")
    assert f"in use   {better}" in run("--home", embedded_home)[1]
    run("use", installed.weights(embedded_home), "--home", embedded_home)
    assert f"in use   {installed.weights(embedded_home)}" in run("--home", embedded_home)[1]


def test_a_file_that_is_no_model_is_one_line_and_status_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["model", "use", str(tmp_path / "none.gguf"), "--home", str(tmp_path)])
    assert result.exit_code == 1
    assert (
        result.output
        == f"Error: the model file {tmp_path}/none.gguf cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize("name", ["serve", "gateway", "model"])
def test_the_projects_commands_have_joined(name: str) -> None:
    assert name in CliRunner().invoke(main, ["--help"]).output
