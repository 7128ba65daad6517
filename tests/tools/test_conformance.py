"""What every tool promises, whichever it is: one suite over all that are found."""

import threading
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.tools.conftest import CONFIG, Site
from timothy.cancel import Cancel
from timothy.permissions import decide, policy_of
from timothy.tools.arguments import misfit
from timothy.tools.base import Context, Tool, ToolError, check, find, for_model, preview
from timothy.tools.fetch_url import FetchUrl

EXAMPLES: dict[str, dict[str, Any]] = {
    "calculate": {"expression": "6 * 7"},
    "current_time": {"timezone": "Europe/Berlin"},
    "edit_file": {"path": "here.txt", "old": "old", "new": "new"},
    "fetch_url": {"url": "http://127.0.0.1:9/"},
    "list_files": {},
    "read_file": {"path": "here.txt"},
    "recall": {},
    "remember": {"text": "tea, not coffee"},
    "run_command": {"command": "cat here.txt"},
    "search_files": {"text": "old"},
    "web_search": {"query": "anything"},
    "write_file": {"path": "there.txt", "content": "text"},
}
ALLOWED = {"current_time", "calculate", "read_file", "list_files", "search_files", "recall"}
UNREACHABLE = {"fetch_url", "web_search"}  # nothing public can be reached from a test
ALL = find(CONFIG)
every_tool = pytest.mark.parametrize("tool", ALL.values(), ids=ALL.keys())


@pytest.fixture(autouse=True)
def a_file(context: Context) -> None:
    (context.workspace / "here.txt").write_text("an old line\n")


def test_every_tool_has_an_example_here() -> None:
    assert ALL.keys() == EXAMPLES.keys()


@every_tool
def test_a_tool_describes_itself(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.schema)
    assert tool.schema["type"] == "object"
    assert tool.schema["additionalProperties"] is False
    assert all("description" in entry for entry in tool.schema["properties"].values())
    assert len(tool.description) > 30
    assert ALL[tool.name] is tool


@every_tool
def test_a_module_is_named_like_its_tool(tool: Tool) -> None:
    assert type(tool).__module__ == f"timothy.tools.{tool.name}"


@every_tool
def test_only_what_reads_is_allowed_by_default(tool: Tool) -> None:
    assert policy_of(tool, CONFIG.tools) == ("allow" if tool.name in ALLOWED else "ask")
    assert decide(tool, EXAMPLES[tool.name], CONFIG.tools, granted=False).kind == policy_of(
        tool, CONFIG.tools
    )
    assert (tool.danger == "read") == (tool.name in ALLOWED)


@every_tool
def test_an_example_fits_and_gives_text(tool: Tool, context: Context) -> None:
    assert check(tool, EXAMPLES[tool.name]) is None
    try:
        result = tool.run(EXAMPLES[tool.name], context, Cancel())
    except ToolError as error:
        assert tool.name in UNREACHABLE, error
        return
    assert isinstance(result, str) and result
    assert for_model(result) == result and preview(result) == (result, False)


WRONG = (
    [],
    "text",
    None,
    7,
    {"no such argument": 1},
    {"path": 7, "command": [], "url": {}, "text": 3, "expression": 1},
)


@every_tool
@pytest.mark.parametrize("input", WRONG, ids=repr)
def test_wrong_arguments_are_told_to_the_model(tool: Tool, input: Any) -> None:
    problem = check(tool, input)
    assert problem and tool.name in problem and len(problem) < 3_000


@every_tool
def test_a_missing_argument_is_named(tool: Tool) -> None:
    for name in tool.schema.get("required", []):
        assert name in (
            check(tool, {key: EXAMPLES[tool.name][key] for key in EXAMPLES[tool.name] if key != name}) or ""
        )


@every_tool
def test_a_cancelled_call_does_nothing(tool: Tool, context: Context) -> None:
    before = sorted(path.name for path in context.home.rglob("*"))
    cancel = Cancel()
    cancel.cancel()
    began = time.monotonic()
    with pytest.raises(ToolError, match="cancelled"):
        tool.run(EXAMPLES[tool.name], context, cancel)
    assert time.monotonic() - began < 5
    assert sorted(path.name for path in context.home.rglob("*")) == before
    assert (context.workspace / "here.txt").read_text() == "an old line\n"


def inputs(schema: dict[str, Any]) -> some.SearchStrategy[dict[str, Any]]:
    """Arguments that fit such a schema: every kind of text and number that it lets through."""
    known = {name: value(entry) for name, entry in schema["properties"].items()}
    needed = {name: known.pop(name) for name in schema.get("required", [])}
    return some.fixed_dictionaries(needed, optional=known)


def value(entry: dict[str, Any]) -> some.SearchStrategy[Any]:
    if entry["type"] == "string":
        return some.text(min_size=entry.get("minLength", 0), max_size=min(80, entry.get("maxLength", 80)))
    if entry["type"] == "integer":
        return some.integers(entry.get("minimum"), entry.get("maximum"))
    return some.booleans()


@every_tool
def test_a_person_can_be_asked_about_any_fitting_call(tool: Tool) -> None:
    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(inputs(tool.schema))
    def asked(input: dict[str, Any]) -> None:
        assert misfit(tool.name, tool.schema, input) is None
        verdict = decide(tool, input, CONFIG.tools, granted=False)
        assert verdict.subject and isinstance(verdict.rationale, str) and len(verdict.rationale) > 20

    asked()


LONG: dict[str, dict[str, Any]] = {
    "run_command": {"command": "sleep 60"},
    "search_files": {"text": "(a+)+$", "pattern": True},
    "fetch_url": {"url": "SITE/slow"},
}


@pytest.mark.parametrize("name", LONG)
def test_a_cancel_ends_a_running_call_at_once(name: str, context: Context, site: Site) -> None:
    (context.workspace / "endless.txt").write_text("a" * 60 + "!")
    asked = threading.Event()
    site.pages["/slow"] = lambda _: asked.wait(20) and None
    tool = FetchUrl(trusted=(site.origin,)) if name == "fetch_url" else ALL[name]
    input = {
        key: str(text).replace("SITE", site.origin) if key == "url" else text
        for key, text in LONG[name].items()
    }
    cancel = Cancel()
    timer = threading.Timer(0.4, cancel.cancel)
    timer.start()
    began = time.monotonic()
    with pytest.raises(ToolError, match="cancelled"):
        tool.run(input, context, cancel)
    asked.set()
    timer.join()
    assert 0.3 < time.monotonic() - began < 10
