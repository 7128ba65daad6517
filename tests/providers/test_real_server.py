"""A real peer: llama.cpp's own server speaks two of the wires, with bytes that nobody here made up."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.providers.peer import settings, summed
from timothy.cancel import Cancel
from timothy.conversation import Message, ModelRequest
from timothy.events import Error, Incomplete, TextDelta, Usage
from timothy.model.child import Child, Endpoint
from timothy.providers import anthropic, openai

WINDOW = 512
SYSTEM = "You are a helpful assistant."
HELLO = ModelRequest((Message("user", "Say hello."),), system=SYSTEM)
STORY = ModelRequest((Message("user", "Tell a very long story."),), system=SYSTEM)
TOO_LONG = ModelRequest((Message("user", "one two three four five " * 200),), system=SYSTEM)
WIRES = {"openai": openai.Driver, "anthropic": anthropic.Driver}


@pytest.fixture(scope="module")
def endpoint(weights: Path) -> Iterator[Endpoint]:
    with closing(Child(weights, WINDOW)) as child:
        yield child.run().endpoint(60)


@pytest.fixture(params=WIRES)
def made(request: pytest.FixtureRequest, endpoint: Endpoint) -> Any:
    wire = request.param
    base = endpoint.base_url if wire == "openai" else endpoint.base_url.removesuffix("/v1")
    own = settings(wire, base, max_tokens=12, tools=False)
    return WIRES[wire](own, Path("/nowhere"), key=endpoint.key, extra={"temperature": 0})


def test_a_real_server_answers_in_tokens_and_says_what_they_cost(made: Any) -> None:
    events = list(made.stream(HELLO, Cancel()))
    got = summed(events)
    assert got["terminal"] == "done" and got["text"]
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    (usage,) = [event for event in events if isinstance(event, Usage)]
    assert usage.input_tokens and 0 < (usage.output_tokens or 0) <= 12


def test_a_real_limit_is_an_answer_cut_short(made: Any) -> None:
    assert Incomplete("length") in list(made.stream(STORY, Cancel()))


def test_a_real_overflow_tells_both_numbers(made: Any) -> None:
    *_, last = made.stream(TOO_LONG, Cancel())
    assert isinstance(last, Error) and last.code == "context_overflow"
    assert last.context_window == WINDOW and (last.prompt_tokens or 0) > WINDOW


def test_a_wrong_key_is_named_by_a_real_server(endpoint: Endpoint) -> None:
    stranger = openai.Driver(settings("openai", endpoint.base_url), Path("/nowhere"), key="wrong")
    *_, last = stranger.stream(HELLO, Cancel())
    assert isinstance(last, Error) and last.code == "auth_failed"
    assert "Invalid API Key" in last.message


def test_a_real_server_is_left_at_once_and_is_free_for_the_next(endpoint: Endpoint) -> None:
    talker, brief = (
        openai.Driver(
            settings("openai", endpoint.base_url, max_tokens=most, tools=False),
            Path("/nowhere"),
            key=endpoint.key,
        )
        for most in (400, 12)
    )
    cancel = Cancel()
    events = talker.stream(STORY, cancel)
    next(event for event in events if isinstance(event, TextDelta))
    threading.Timer(0.05, cancel.cancel).start()
    assert cancel.wait(5)
    began = time.monotonic()
    assert summed(events)["code"] == "stopped"
    assert time.monotonic() - began < 1
    assert summed(brief.stream(HELLO, Cancel()))["terminal"] == "done"
