"""What every tool's arguments and results go through."""

from pathlib import Path
from typing import Any

import pytest

from timothy.cancel import Cancel
from timothy.config import Config, Tools
from timothy.errors import ConfigError
from timothy.tools.base import Context, Danger, check, find, for_model, preview, workspace


class Fake:
    """A tool of any schema."""

    name = "fake"
    description = "Nothing"
    native = True

    def __init__(self, schema: dict[str, Any], danger: Danger = "read") -> None:
        self.schema = schema
        self.danger: Danger = danger

    def subject(self, input: dict[str, Any]) -> str:
        return "nothing"

    def rationale(self, input: dict[str, Any]) -> str:
        return "Does nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        return ""


def test_web_search_is_there_only_with_a_server_to_ask() -> None:
    assert "web_search" not in find(Config())
    assert "web_search" in find(Config(tools=Tools(searxng_url="http://127.0.0.1:9")))


def test_the_workspace_is_in_the_home_or_where_the_settings_say(tmp_path: Path) -> None:
    assert workspace(Config(), tmp_path) == tmp_path / "workspace"
    elsewhere = tmp_path / "a" / "b"
    assert workspace(Config(tools=Tools(workspace=str(elsewhere))), tmp_path / "home") == elsewhere
    assert elsewhere.is_dir()


@pytest.mark.parametrize("folder", [".", "..", "/", "workspace/.."])
def test_a_workspace_never_holds_the_home(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.workspace.*token"):
        workspace(Config(tools=Tools(workspace=folder)), tmp_path / "home")


def test_every_wrong_argument_is_named_up_to_five() -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in "abcdefg"},
        "required": ["z"],
    }
    problem = check(Fake(schema), dict.fromkeys("abcdefg", "x"))
    assert problem and problem.count("arguments.") == 4 and "'z' is a required property" in problem


def test_a_schema_that_points_elsewhere_is_never_fetched() -> None:
    assert "points elsewhere" in (check(Fake({"$ref": "http://127.0.0.1:9/schema"}), {}) or "")


def test_a_huge_argument_is_not_repeated_whole() -> None:
    problem = check(Fake({"type": "object", "properties": {"a": {"maxLength": 3}}}), {"a": "x" * 1_000_000})
    assert problem and len(problem) < 500 and problem.endswith("is too long")


def test_a_short_result_is_for_the_model_as_it_is() -> None:
    assert for_model("short") == "short"
    assert for_model("é" * 16_000) == "é" * 16_000


@pytest.mark.parametrize("letter", ["a", "é", "漢", "😀"])
def test_a_long_result_keeps_head_and_tail_and_says_what_was_cut(letter: str) -> None:
    result = f"HEAD{letter * 100_000}TAIL"
    shown = for_model(result, 1_000)
    head, middle, tail = shown.split("\n")
    assert head.startswith("HEAD") and tail.endswith("TAIL")
    assert "\ufffd" not in shown and len(shown.encode()) < 1_050
    assert middle == f"... cut {len(result.encode()) - len(head.encode()) - len(tail.encode())} bytes ..."


def test_a_preview_says_when_it_is_not_all() -> None:
    assert preview("x" * 2_000) == ("x" * 2_000, False)
    assert preview("x" * 2_001) == ("x" * 2_000, True)
