"""A tool may have any name: the wire gets one that it takes, the turn hears its own."""

import re
from pathlib import Path

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import Call, Message, ModelRequest, ToolSpec
from timothy.events import ToolCall, ToolCallStarted
from timothy.providers.base import load
from timothy.providers.names import LONGEST, wire_name

NAMES = [
    "plain_name",
    "files.read",
    "files_.read",
    "a b",
    "ключ",
    "x" * 64,
    "x" * 65,
    "x" * 66,
    "s." + "y" * 90,
]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_becomes_one_that_providers_take(name: str) -> None:
    assert re.fullmatch("[A-Za-z0-9_-]+", wire_name(name)) and len(wire_name(name)) <= LONGEST


def test_different_names_stay_different_and_good_ones_stay_as_they_are() -> None:
    assert len({wire_name(name) for name in NAMES}) == len(NAMES)
    assert wire_name("plain_name") == "plain_name"


def test_the_turn_hears_the_name_that_the_tool_has(tmp_path: Path) -> None:
    asked = ToolSpec("files.read", "reads", {"type": "object"})
    before = Message("assistant", "", calls=(Call("c0", "files.read", {}),))
    messages = (Message("user", "x"), before, Message("tool", "y", call_id="c0"), Message("user", "again"))
    with FakeProvider() as fake:
        call = {"name": wire_name("files.read"), "arguments": {"path": "a"}}
        fake.behave("m", Behaviour(tools=(call,)))
        settings = ProviderSettings(name="p", driver="openai", model="m", base_url=fake.base_url)
        request = ModelRequest(messages=messages, tools=(asked,))
        events = list(load(settings, tmp_path).stream(request, Cancel()))
        body = fake.requests("m")[0].body
    named = [event.name for event in events if isinstance(event, (ToolCallStarted, ToolCall))]
    assert named == ["files.read", "files.read"]
    sent = wire_name("files.read")
    assert body["tools"][0]["function"]["name"] == sent
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == sent
