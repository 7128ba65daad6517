"""What drivers send is what the vendors' own packages call a request, and fit for any conversation."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic.types import MessageParam
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from tests.providers.peer import DONE, OK, Peer, driver, summed, text_chunk
from timothy.cancel import Cancel
from timothy.conversation import Call, Image, Message, ModelRequest, ToolSpec
from timothy.providers.prompt import NO_IMAGE, NO_RESULT

PIXEL = Image("image/png", "iVBORw0KGgo=")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "number"}}})
CONVERSATION = ModelRequest(
    (
        Message("user", "look", images=(PIXEL,)),
        Message("assistant", "I will.", (Call("c1", "add", {"a": 1}), Call("c/2", "add", {}))),
        Message("tool", "2", call_id="c1"),
        Message("tool", "", call_id="c/2"),
        Message("assistant", "Two."),
        Message("user", "and now?"),
    ),
    system="Be brief.",
    tools=(ADD,),
)
CONTINUED = ModelRequest((Message("user", "tell"), Message("assistant", "Once upon a ")), continues=True)
TYPED: dict[str, tuple[TypeAdapter[Any], TypeAdapter[Any]]] = {
    "openai": (TypeAdapter(CompletionCreateParamsStreaming), TypeAdapter(ChatCompletionMessageParam)),
    "anthropic": (TypeAdapter(MessageCreateParamsStreaming), TypeAdapter(MessageParam)),
}


def body(wire: str, request: ModelRequest, lacking: frozenset[str] = frozenset(), **fields: Any) -> Any:
    """What goes over the wire, after the encoding."""
    made = driver(wire, **{"vision": True, **fields})
    return json.loads(msgspec.json.encode(made.body(request, lacking)))


def exhausted(value: Any) -> Any:
    """All of a validated value: pydantic looks at an Iterable only when it is read."""
    if isinstance(value, dict):
        return {key: exhausted(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [exhausted(item) for item in value]
    return value


def accept(wire: str, request: ModelRequest, **fields: Any) -> Any:
    """The body, after the vendor's own types took it, with nothing in it that they do not know."""
    whole, message = TYPED[wire]
    sent = body(wire, request, **fields)
    assert exhausted(whole.validate_python(sent)) == sent
    for each in sent["messages"]:
        assert exhausted(message.validate_python(each)) == each
    return sent


@pytest.mark.parametrize("wire", TYPED)
@pytest.mark.parametrize("request_", [CONVERSATION, CONTINUED], ids=["tools and images", "continued"])
def test_the_vendors_own_types_accept_a_request(wire: str, request_: ModelRequest) -> None:
    accept(wire, request_, max_tokens=100)


@pytest.mark.parametrize("wire", TYPED)
def test_the_check_by_types_can_fail(wire: str) -> None:
    sent = body(wire, CONVERSATION)
    sent["messages"][1]["role"] = "robot"
    with pytest.raises(ValueError, match="role"):
        exhausted(TYPED[wire][0].validate_python(sent))


def test_chat_completions_has_all_of_a_conversation() -> None:
    sent = accept("openai", CONVERSATION, max_tokens=100)
    assert [message["role"] for message in sent["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user",
    ]  # fmt: skip
    assert sent["messages"][1]["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    assert json.loads(sent["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    assert sent["stream_options"] == {"include_usage": True} and sent["stream"] is True
    assert sent["max_tokens"] == 100 and sent["tools"][0]["function"]["parameters"] == ADD.schema


def test_messages_has_all_of_a_conversation() -> None:
    sent = accept("anthropic", CONVERSATION)
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in sent["messages"][0]["content"]] == ["image", "text"]
    call, result = sent["messages"][1]["content"][2], sent["messages"][2]["content"][1]
    assert call["id"] == result["tool_use_id"] == "c_2"
    assert result["content"]  # the wire refuses an empty text
    assert sent["system"] == "Be brief." and sent["max_tokens"] == 8192


def test_ollama_has_all_of_a_conversation() -> None:
    sent = body("ollama", CONVERSATION, max_tokens=100, context_window=4096)
    assert sent["messages"][1] == {"role": "user", "content": "look", "images": ["iVBORw0KGgo="]}
    assert sent["messages"][2]["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 1}}
    assert sent["messages"][3] == {"role": "tool", "content": "2", "tool_name": "add"}
    assert sent["options"] == {"num_predict": 100, "num_ctx": 4096}


def test_a_temperature_is_sent_only_where_one_is_set() -> None:
    assert accept("openai", CONVERSATION, temperature=0.0)["temperature"] == 0.0
    assert "temperature" not in body("openai", CONVERSATION)
    assert body("ollama", CONVERSATION, temperature=0.0)["options"] == {"temperature": 0.0}
    assert "options" not in body("ollama", CONVERSATION)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "ollama"])
def test_a_model_without_eyes_gets_a_note_instead_of_an_image(wire: str) -> None:
    sent = json.dumps(body(wire, CONVERSATION, vision=False))
    assert NO_IMAGE in sent and PIXEL.data not in sent


@pytest.mark.parametrize("wire", ["openai", "anthropic", "ollama"])
def test_a_model_without_tools_is_told_of_earlier_calls_in_words(wire: str) -> None:
    sent = body(wire, CONVERSATION, tools=False)
    assert "tools" not in sent
    assert {message["role"] for message in sent["messages"]} <= {"system", "user", "assistant"}
    assert "called add" in json.dumps(sent) and "tool_calls" not in json.dumps(sent)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "ollama"])
def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_goes(wire: str) -> None:
    request = ModelRequest(
        (
            Message("user", "hi"),
            Message("tool", "orphan", call_id="zz"),
            Message("assistant", "", (Call("c1", "add", {}), Call("c2", "add", {}))),
            Message("tool", "two", call_id="c2"),
            Message("user", "go on"),
        )
    )
    sent = json.dumps(body(wire, request))
    assert "orphan" not in sent
    assert sent.index(NO_RESULT) < sent.index("two")


def test_neighbours_of_one_role_are_one_message_and_empty_ones_none() -> None:
    request = ModelRequest(
        (Message("user", "a"), Message("assistant", ""), Message("user", "b"), Message("user", "c"))
    )
    assert body("openai", request)["messages"] == [{"role": "user", "content": "a\n\nb\n\nc"}]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "ollama"])
def test_an_answer_goes_on_where_it_stops(wire: str) -> None:
    last = body(wire, CONTINUED)["messages"][-1]
    assert last["role"] == "assistant"
    assert "Once upon a" in json.dumps(last)


def test_an_answer_to_go_on_with_does_not_end_in_a_space_where_that_is_refused() -> None:
    assert body("anthropic", CONTINUED)["messages"][-1]["content"][0]["text"] == "Once upon a"


REFUSALS = {
    "openai": "Cannot have 2 or more assistant messages at the end of the list.",
    "anthropic": "This model does not support assistant message prefill. The last must be a user message.",
    "ollama": "last message must not be from the assistant",
}
ENDINGS = {
    "openai": text_chunk("time") + DONE,
    "anthropic": b'data: {"type":"content_block_delta","delta":{"text":"time"}}\n\n'
    b'data: {"type":"message_stop"}\n\n',
    "ollama": b'{"message":{"content":"time"}}\n{"done":true}\n',
}


@pytest.mark.parametrize("wire", REFUSALS)
def test_a_provider_that_refuses_an_answer_to_go_on_with_gets_it_as_a_note(
    wire: str, peer: Callable[..., Peer]
) -> None:
    refusal = json.dumps({"error": {"message": REFUSALS[wire], "type": "invalid_request_error"}}).encode()
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(refusal)
    server = peer([head + refusal], [OK + ENDINGS[wire]])
    got = summed(driver(wire, server.url(wire)).stream(CONTINUED, Cancel()))
    assert (got["text"], got["terminal"]) == ("time", "done")
    last = server.bodies[1]["messages"][-1]
    assert last["role"] == "user" and "Once upon a" in json.dumps(last)
    assert all(message["role"] == "user" for message in server.bodies[1]["messages"])


def test_a_limit_that_is_too_high_for_the_model_is_lowered_to_what_it_says(peer: Callable[..., Peer]) -> None:
    message = "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for this model"
    refusal = json.dumps(
        {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    ).encode()
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(refusal)
    server = peer([head + refusal], [OK + ENDINGS["anthropic"]])
    assert (
        summed(driver("anthropic", server.url("anthropic")).stream(CONTINUED, Cancel()))["terminal"] == "done"
    )
    assert server.bodies[1]["max_tokens"] == 4096


TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
CALLS = st.lists(
    st.builds(
        Call, st.sampled_from(["a", "b", "c d"]), st.just("add"), st.dictionaries(TEXT, TEXT, max_size=2)
    ),
    max_size=2,
    unique_by=lambda call: call.call_id,
).map(tuple)
MESSAGES = st.lists(
    st.builds(Message, st.just("user"), TEXT)
    | st.builds(Message, st.just("user"), TEXT, images=st.just((PIXEL,)))
    | st.builds(Message, st.just("assistant"), TEXT, CALLS)
    | st.builds(Message, st.just("tool"), TEXT, call_id=st.sampled_from(["a", "b", "c d"])),
    min_size=1,
    max_size=8,
).map(tuple)


@how(max_examples=60, deadline=None)
@given(MESSAGES, st.booleans(), st.booleans())
def test_any_conversation_makes_a_request_that_the_wires_take(
    messages: tuple[Message, ...], vision: bool, tools: bool
) -> None:
    request = ModelRequest(messages, tools=(ADD,))
    accept("openai", request, vision=vision, tools=tools)
    sent = accept("anthropic", request, vision=vision, tools=tools)["messages"]
    assert [message["role"] for message in sent] == [("user", "assistant")[n % 2] for n in range(len(sent))]
    assert sent[-1]["role"] == "user"
    open_calls: set[str] = set()
    for message in sent:
        blocks = message["content"]
        assert blocks and all(block.get("text", "x").strip() for block in blocks)
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        assert results == open_calls
        open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    assert not open_calls


def test_a_key_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(Exception, match="NO_SUCH_KEY"):
        driver("openai", api_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize("wire", ["openai", "anthropic", "ollama"])
def test_a_drivers_file_names_where_its_wire_is_described(wire: str) -> None:
    module = Path(__file__).parents[2] / "timothy" / "providers" / f"{wire}.py"
    assert "Fields as in" in module.read_text(encoding="utf-8")
