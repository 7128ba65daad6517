"""What the wires say beyond the recorded cases, frame by frame."""

import json
from typing import Any

import pytest

from tests.providers.peer import driver, merged, summed
from timothy.events import Done, Error, Event, Incomplete, Status, TextDelta, ToolCall, ToolCallStarted, Usage


def openai(*frames: Any, done: bool = True) -> list[Event]:
    body = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    return merged(driver("openai").parse([body + (b"data: [DONE]\n\n" if done else b"")]))


def anthropic(*frames: Any) -> list[Event]:
    body = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    return merged(driver("anthropic").parse([body + b'data: {"type":"message_stop"}\n\n']))


def ollama(*lines: Any) -> list[Event]:
    return merged(driver("ollama").parse([b"".join(json.dumps(line).encode() + b"\n" for line in lines)]))


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def finish(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def call(**fields: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "now", "arguments": "{}"}, **fields}]}


TEXT = delta(content="a")


def test_content_in_parts_is_text_and_thinking() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        5,
    ]
    got = summed(openai(delta(content=parts)))
    assert (got["reasoning"], got["text"]) == ("hm", "a")


def test_a_models_refusal_is_its_answer() -> None:
    assert summed(openai(delta(refusal="I won't")))["text"] == "I won't"


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([TEXT, {"choices": [{"error": {"code": 502, "message": "down"}}]}], "overloaded"),
        ([TEXT, {"object": "error", "message": "no", "type": "BadRequestError", "code": 400}], "bad_request"),
        ([TEXT, {"message": "come back later", "code": "rate_limit_exceeded"}], "rate_limited"),
        ([TEXT, {"message": "no room", "status_code": 503, "type": "error"}], "overloaded"),
        ([TEXT, {"error": "words alone"}], "provider_error"),
        ([TEXT, finish("error")], "provider_error"),
        ([TEXT, finish("stop"), {"error": {"code": 500}}], "provider_error"),
        ([{"error": {}}, finish("stop")], "empty_output"),
        ([{"error": None}, finish("stop")], "empty_output"),
    ],
)
def test_an_error_is_looked_for_before_anything_else(frames: list[Any], code: str) -> None:
    assert summed(openai(*frames))["code"] == code


@pytest.mark.parametrize(
    ("reason", "incomplete"),
    [
        ("stop", None),
        ("eos", None),
        ("tool_calls", None),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
    ],
)
def test_a_reason_to_end_is_told_in_our_words(reason: str, incomplete: str | None) -> None:
    got = openai(TEXT, finish(reason))
    assert got[1:] == [*([Incomplete(incomplete)] if incomplete else []), Done(incomplete or "stop")]  # type: ignore[arg-type]


def test_an_incomplete_answer_without_content_is_empty() -> None:
    *_, last = openai(finish("content_filter"))
    assert isinstance(last, Error) and last.code == "empty_output" and "content_filter" in last.message


def test_an_answer_that_fails_still_tells_what_it_cost() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    assert openai(TEXT, usage, {"error": {"code": 500}})[1] == Usage(7, 2, None)


def test_cached_tokens_are_a_part_of_the_input() -> None:
    details = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    assert Usage(9, 1, 4) in openai(TEXT, {"choices": [], "usage": details})
    start = {
        "input_tokens": 1,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 4,
        "output_tokens": 1,
    }
    block = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    assert Usage(9, 1, 4) in anthropic({"type": "message_start", "message": {"usage": start}}, block)


def test_loose_types_are_taken_as_what_they_mean() -> None:
    frame = {"choices": [{"delta": {"tool_calls": [{"index": "0", "id": "A", "function": {"name": "now"}}]}}]}
    assert summed(openai(frame))["calls"] == [["now", {}]]


def test_two_whole_calls_without_index_in_one_frame_are_two() -> None:
    frame = {"choices": [{"delta": {"tool_calls": [call()["tool_calls"][0], call()["tool_calls"][0]]}}]}
    assert summed(openai(frame))["calls"] == [["now", {}], ["now", {}]]


def test_events_come_in_the_order_in_which_they_were_said() -> None:
    frames = [delta(content="a"), delta(**call(id="A")), delta(content="b"), finish("tool_calls")]
    assert openai(*frames) == [
        TextDelta("a"),
        ToolCallStarted("call 0", "now"),
        TextDelta("b"),
        ToolCall("call 0", "now", {}),
        Done("tool_calls"),
    ]


def test_thinking_that_was_not_closed_before_a_call_is_not_the_answer() -> None:
    got = summed(openai(delta(content="<think>hm"), delta(**call(id="A"))))
    assert (got["reasoning"], got["text"], got["calls"]) == ("hm", "", [["now", {}]])


def test_a_call_that_is_no_object_is_told_with_its_words() -> None:
    frame = delta(tool_calls=[{"index": 0, "id": "A", "function": {"name": "now", "arguments": "nonsense"}}])
    assert ToolCall("call 0", "now", {}, "nonsense") in openai(frame)


def test_progress_that_is_complete_is_not_told() -> None:
    read = {"choices": [], "prompt_progress": {"total": 5, "processed": 5}}
    assert not [event for event in openai(read, TEXT) if isinstance(event, Status)]


def test_an_answer_of_messages_that_did_not_stream_is_read_whole() -> None:
    body = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "A", "name": "now", "input": {"b": 1}},
        ],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    got = summed(driver("anthropic").parse([json.dumps(body).encode()]))
    assert got["text"] == "a" and got["reasoning"] == "hm" and got["calls"] == [["now", {"b": 1}]]
    assert got["incomplete"] == "length" and got["usage"] == {"input_tokens": 3, "output_tokens": 4}


def test_an_error_event_of_messages_without_an_object_keeps_its_words() -> None:
    *_, last = anthropic({"type": "error", "why": "the moon"})
    assert isinstance(last, Error) and last.code == "provider_error" and "the moon" in last.message


def test_two_equal_calls_of_ollama_are_two() -> None:
    message = {"message": {"content": "", "tool_calls": [{"function": {"name": "now", "arguments": {}}}]}}
    assert summed(ollama(message, message, {"done": True}))["calls"] == [["now", {}], ["now", {}]]


def test_ollama_names_a_model_that_is_not_there() -> None:
    assert summed(ollama({"error": "model 'x' not found"}))["code"] == "provider_error"


def test_half_a_frame_at_the_end_of_a_finished_answer_is_nothing() -> None:
    body = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: {"cho'
    assert summed(driver("openai").parse([body]))["terminal"] == "done"
