"""The scripted provider does what its script says, and stops when it is told to."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.providers.peer import ASKED, settings, summed
from timothy.cancel import Cancel
from timothy.conversation import Message, ModelRequest
from timothy.errors import ConfigError
from timothy.events import (
    Done,
    Error,
    Event,
    Incomplete,
    ReasoningDelta,
    Status,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    Usage,
)
from timothy.providers.scripted import Driver


def scripted(home: Path, script: dict[str, Any]) -> Driver:
    (home / "script.json").write_text(json.dumps(script))
    return Driver(settings("scripted", script="script.json"), home)


def played(driver: Driver, *messages: Message, cancel: Cancel | None = None) -> list[Event]:
    return list(driver.stream(ModelRequest(messages or ASKED.messages), cancel or Cancel()))


def test_every_step_is_played_in_order(tmp_path: Path) -> None:
    steps = [
        {"status": {"code": "loading_model", "message": "soon"}},
        {"reasoning": "hm"},
        {"text": "a", "repeat": 2},
        {"echo": True},
        {"call": {"name": "add", "input": {"a": 1}, "call_id": "c1"}},
        {"usage": [3, 4]},
        {"incomplete": "length"},
    ]
    assert played(scripted(tmp_path, {"turns": [steps]})) == [
        Status("loading_model", "soon"),
        ReasoningDelta("hm"),
        TextDelta("a"),
        TextDelta("a"),
        TextDelta("hi"),
        ToolCallStarted("c1", "add"),
        ToolCall("c1", "add", {"a": 1}),
        Usage(3, 4, None),
        Incomplete("length"),
        Done("length"),
    ]


def test_turns_are_played_one_per_request_and_the_last_repeats(tmp_path: Path) -> None:
    driver = scripted(tmp_path, {"turns": [[{"text": "one"}], [{"text": "two"}]]})
    assert [summed(played(driver))["text"] for _ in range(3)] == ["one", "two", "two"]


def test_rules_answer_what_they_fit(tmp_path: Path) -> None:
    driver = scripted(
        tmp_path,
        {
            "rules": [
                {"match": "weather", "tool_result": "rain", "steps": [{"text": "take an umbrella"}]},
                {"tool_result": "", "steps": [{"text": "told: "}, {"echo": True}]},
                {"match": "WEATHER", "steps": [{"call": {"name": "look"}}]},
            ],
            "turns": [[{"text": "else"}]],
        },
    )
    question, call = Message("user", "the weather?"), Message("assistant", "")
    assert summed(played(driver, question))["calls"] == [["look", {}]]
    assert summed(played(driver, question, call, Message("tool", "rain")))["text"] == "take an umbrella"
    assert summed(played(driver, question, call, Message("tool", "sun")))["text"] == "told: sun"
    assert summed(played(driver, Message("user", "hello")))["text"] == "else"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            {"error": {"code": "overloaded", "message": "busy", "retry_after_s": 3}},
            Error("overloaded", "busy", True, 3),
        ),
        ({"error": {"code": "auth_failed", "message": "no"}}, Error("auth_failed", "no", False)),
        ({"cut": True}, Error("stream_cut", "the stream ended without saying so", True)),
        ({"raise": True}, Error("stream_cut", "RuntimeError: the script raises here", True)),
        ({"done": "stop"}, Done("stop")),
    ],
)
def test_an_answer_can_end_in_every_way(tmp_path: Path, step: dict[str, Any], expected: Event) -> None:
    assert played(scripted(tmp_path, {"turns": [[{"text": "a"}, step]]})) == [TextDelta("a"), expected]


def test_an_answer_without_content_is_a_failure(tmp_path: Path) -> None:
    assert summed(played(scripted(tmp_path, {"turns": [[{"usage": [1, 0]}]]})))["code"] == "empty_output"


def test_a_script_without_an_answer_says_so(tmp_path: Path) -> None:
    assert summed(played(scripted(tmp_path, {})))["code"] == "provider_error"


@pytest.mark.parametrize(
    "step", [{"sleep_s": 30}, {"wait_file": "/nowhere/at/all"}, {"text": "b", "delay_s": 30}]
)
def test_a_stop_ends_every_pause_at_once(tmp_path: Path, step: dict[str, Any]) -> None:
    cancel = Cancel()
    events = scripted(tmp_path, {"turns": [[{"text": "a"}, step]]}).stream(ASKED, cancel)
    assert next(events) == TextDelta("a")
    timer = threading.Timer(0.02, cancel.cancel)
    timer.start()
    began = time.monotonic()
    assert summed(events)["code"] == "stopped"
    assert time.monotonic() - began < 5
    timer.join()


def test_a_file_holds_a_turn_at_an_exact_point(tmp_path: Path) -> None:
    file = tmp_path / "go"
    events = scripted(tmp_path, {"turns": [[{"text": "a"}, {"wait_file": str(file)}, {"text": "b"}]]}).stream(
        ASKED, Cancel()
    )
    assert next(events) == TextDelta("a")
    file.touch()
    assert list(events) == [TextDelta("b"), Done("stop")]


def test_without_a_script_there_is_a_demo() -> None:
    assert summed(played(Driver(settings("scripted"), Path("/nowhere"))))["text"].endswith("You wrote: hi")


@pytest.mark.parametrize("text", ["{", '{"turns": [[{"tekst": "a"}]]}', '{"turns": [{"text": "a"}]}'])
def test_a_script_that_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "script.json").write_text(text)
    with pytest.raises(ConfigError, match=r"script\.json"):
        Driver(settings("scripted", script="script.json"), tmp_path)


def test_a_script_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Driver(settings("scripted", script="none.json"), tmp_path)
