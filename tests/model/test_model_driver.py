"""The local driver over the real model: loading is shown, faults are named, and no word is compared."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import urllib3

from timothy.cancel import Cancel
from timothy.config import EMBEDDED
from timothy.conversation import Call, Message, ModelRequest, ToolSpec
from timothy.events import Done, Error, Event, Incomplete, Status, TextDelta, Usage
from timothy.model import installed
from timothy.model.child import Child
from timothy.providers import local

STORY = "Tell me a very long story about a dog and a cat."


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, weights: Path) -> Iterator[local.Driver]:
    """One loaded model; an attempt loads it again should it be dead."""
    with closing(made(tmp_path_factory.mktemp("home"), weights)) as driver:
        collected(driver, "Hi", 1)
        yield driver


@pytest.fixture
def own_driver(tmp_path: Path, weights: Path) -> Iterator[local.Driver]:
    """A model that is not loaded yet."""
    with closing(made(tmp_path, weights)) as driver:
        yield driver


def made(home: Path, weights: Path, **changes: Any) -> local.Driver:
    installed.folder(home).mkdir(parents=True)
    installed.weights(home).symlink_to(weights)
    return local.Driver(settings(**changes), home)


def settings(**changes: Any) -> Any:
    return msgspec.structs.replace(EMBEDDED, **{"context_window": 1024, **changes})


def asked(text: str) -> ModelRequest:
    return ModelRequest((Message("user", text),), system="Some long system prompt")


def collected(
    driver: local.Driver, text: str, count: int = 10**9, cancel: Cancel | None = None
) -> list[Event]:
    """The events of one attempt; it is cancelled after `count` pieces of text."""
    cancel = cancel or Cancel()
    events: list[Event] = []
    for event in driver.stream(asked(text), cancel):
        events.append(event)
        if sum(isinstance(event, TextDelta) for event in events) == count:
            cancel.cancel()
    return events


def eventually(fact: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)


def pid(driver: local.Driver) -> int:
    assert driver._child is not None
    return driver._child.run().pid


def busy(driver: local.Driver) -> bool:
    """Whether the model works on anything (llama.cpp's server, `GET /slots`)."""
    assert driver._child is not None
    endpoint = driver._child.run().endpoint()
    headers = {"Authorization": f"Bearer {endpoint.key}"}
    url = f"{endpoint.base_url.removesuffix('/v1')}/slots"
    slots = urllib3.request("GET", url, headers=headers, timeout=10, retries=False).json()
    assert len(slots) == 2
    return any(slot["is_processing"] for slot in slots)


def test_the_first_attempt_shows_the_loading_and_then_answers(own_driver: local.Driver) -> None:
    events = collected(own_driver, "Say hello.", 3)
    assert events[0] == Status("loading_model", f"loading the model ({installed.WEIGHTS})")
    assert sum(isinstance(event, TextDelta) for event in events) >= 1
    assert isinstance(events[-1], Done | Error)


@pytest.mark.once
def test_the_state_says_what_the_model_does_before_and_after_its_first_use(own_driver: local.Driver) -> None:
    assert own_driver.state() == "SmolLM2-135M-Instruct.Q4_1.gguf, 98 MB, loads at the first message"
    collected(own_driver, "Say hello.", 1)
    assert own_driver.state().endswith("98 MB, ready")
    os.kill(pid(own_driver), signal.SIGKILL)
    eventually(lambda: own_driver.state().endswith("loads at the first message"))


def test_the_state_without_weights_says_how_to_fetch_them(tmp_path: Path) -> None:
    assert "timothy model fetch" in local.Driver(EMBEDDED, tmp_path).state()


def test_an_answer_ends_with_its_tokens_and_one_terminal(driver: local.Driver) -> None:
    events = collected(driver, "What is the capital of France? Answer in one word.")
    *text, usage, done = [event for event in events if not isinstance(event, Status | Incomplete)]
    assert all(isinstance(event, TextDelta) and event.text for event in text)
    assert isinstance(usage, Usage) and usage.input_tokens and usage.output_tokens
    assert isinstance(done, Done)


def test_a_cancel_ends_the_work_in_the_model_itself(driver: local.Driver) -> None:
    events = collected(driver, STORY, 2)
    assert isinstance(events[-1], Error) and events[-1].code == "stopped"
    eventually(lambda: not busy(driver), 5)


def test_a_reader_that_leaves_while_the_prompt_is_read_frees_the_model(driver: local.Driver) -> None:
    cancel = Cancel()
    attempt = driver.stream(asked("An apple a day keeps the doctor away. " * 60), cancel)
    threading.Timer(0.3, cancel.cancel).start()
    assert list(attempt)[-1] == Error("stopped", "stopped", True)
    eventually(lambda: not busy(driver), 5)


@pytest.mark.once
def test_a_prompt_over_the_window_names_both_numbers(driver: local.Driver) -> None:
    error = collected(driver, "word " * 3000)[-1]
    assert isinstance(error, Error)
    assert (error.code, error.retryable, error.context_window) == ("context_overflow", False, 1024)
    assert error.prompt_tokens is not None and error.prompt_tokens > 3000


@pytest.mark.once
def test_an_answer_that_reaches_its_limit_is_incomplete(tmp_path: Path, driver: local.Driver) -> None:
    with closing(local.Driver(settings(max_tokens=5), tmp_path)) as limited:
        limited._child = driver._child
        events = collected(limited, STORY)
        limited._child = None
    assert events[-2:] == [Incomplete("length"), Done("length")]


def test_two_at_once_are_both_answered(driver: local.Driver) -> None:
    answers: list[list[Event]] = []
    threads = [threading.Thread(target=lambda: answers.append(collected(driver, STORY, 5))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sum(isinstance(event, TextDelta) for event in events) >= 5 for events in answers] == [True] * 2


def test_two_first_attempts_load_one_model(own_driver: local.Driver) -> None:
    pids: list[int] = []

    def first() -> None:
        collected(own_driver, "Hi", 1)
        pids.append(pid(own_driver))

    threads = [threading.Thread(target=first) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 2 and len(set(pids)) == 1


def test_a_model_killed_in_mid_answer_is_a_cut_stream_and_the_next_attempt_starts_it_again(
    driver: local.Driver,
) -> None:
    events: list[Event] = []
    for event in driver.stream(asked(STORY), Cancel()):
        events.append(event)
        if isinstance(event, TextDelta) and sum(isinstance(event, TextDelta) for event in events) == 3:
            os.kill(pid(driver), signal.SIGKILL)
    error = events[-1]
    assert isinstance(error, Error) and (error.code, error.retryable) == ("stream_cut", True)
    assert error.message.startswith("the model's process ended (signal 9)")
    again = collected(driver, "Hi", 1)
    assert isinstance(again[0], Status)
    assert any(isinstance(event, TextDelta) for event in again), again


def test_a_cancel_while_the_model_loads_ends_the_attempt_but_not_the_loading(
    own_driver: local.Driver,
) -> None:
    cancel = Cancel()
    events = []
    for event in own_driver.stream(asked("Hi"), cancel):
        events.append(event)
        cancel.cancel()
    assert events[0] == Status("loading_model", f"loading the model ({installed.WEIGHTS})")
    assert events[1:] == [Error("stopped", "stopped", True)]
    assert own_driver._child is not None
    run = own_driver._child.run()
    assert run.endpoint(20).key
    assert own_driver._child.run() is run


def test_a_model_that_does_not_load_in_time_is_named(tmp_path: Path, weights: Path) -> None:
    with closing(made(tmp_path, weights, first_content_timeout_s=0.05)) as driver:
        driver._child = Child(weights, 512, ("sleep", "600"))
        error = collected(driver, "Hi")[-1]
        assert isinstance(error, Error)
        assert error.code == "provider_stalled"
        assert "was not loaded within 0.05 s" in error.message


def test_a_close_while_the_model_loads_ends_the_attempt_by_name(tmp_path: Path, weights: Path) -> None:
    with closing(made(tmp_path, weights)) as driver:
        driver._child = Child(weights, 512, ("sleep", "600"))
        attempt = driver.stream(asked("Hi"), Cancel())
        assert isinstance(next(attempt), Status)
        driver.close()
        (error,) = attempt
        assert isinstance(error, Error) and error.code == "provider_unreachable"
        (error,) = driver.stream(asked("Hi"), Cancel())
        assert isinstance(error, Error) and "shuts down" in error.message


@pytest.mark.once
def test_without_weights_the_failure_says_what_to_do(tmp_path: Path, weights: Path) -> None:
    with closing(local.Driver(EMBEDDED, tmp_path)) as driver:
        (error,) = collected(driver, "Hi")
        assert isinstance(error, Error) and error.code == "provider_unreachable"
        assert f"timothy model fetch --home {tmp_path}" in error.message
        assert "[[providers]]" in error.message
        installed.folder(tmp_path).mkdir()
        installed.weights(tmp_path).symlink_to(weights)
        assert any(isinstance(event, TextDelta) for event in collected(driver, "Hi", 1))


def test_without_the_engine_the_failure_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "ENGINE", "an-engine-nobody-has")
    with closing(local.Driver(EMBEDDED, tmp_path)) as driver:
        (error,) = collected(driver, "Hi")
    assert isinstance(error, Error) and error.code == "provider_unreachable"
    assert "pip install 'timothy[local]'" in error.message


@pytest.mark.once
def test_the_history_of_another_model_with_tools_is_taken_too(driver: local.Driver) -> None:
    call = Call("1", "calculate", {"expression": "6*7"})
    request = ModelRequest(
        (
            Message("user", "What is 6*7?"),
            Message("assistant", "", calls=(call,)),
            Message("tool", "42", call_id="1"),
            Message("assistant", "It is 42."),
            Message("user", "Thank you."),
        ),
        tools=(ToolSpec("calculate", "Do sums", {}),),
    )
    cancel = Cancel()
    for event in driver.stream(request, cancel):
        assert not isinstance(event, Error)
        if isinstance(event, TextDelta):
            break
    else:
        pytest.fail("the model said nothing")
