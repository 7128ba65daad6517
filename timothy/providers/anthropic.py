"""The Messages wire of Anthropic, and of the servers that speak it (llama.cpp for one).

Fields as in the Anthropic API reference, "Messages" and "Streaming messages".
"""

import re
from itertools import groupby
from typing import Any

import msgspec

from timothy.conversation import Call, Image, Message, ModelRequest
from timothy.providers import sse
from timothy.providers.answer import Answer
from timothy.providers.failures import failure
from timothy.providers.http import PREFILL, HttpDriver
from timothy.providers.prompt import prepared
from timothy.providers.reading import decoded

VERSION = "2023-06-01"
MAX_TOKENS = 8192
EMPTY = "(empty)"
_PREFILL_REFUSED = re.compile(r"assistant|prefill|final message|last message|user message", re.I)
_MAX_TOKENS_REFUSED = re.compile(r"max_tokens: \d+ > (\d+)")


class _Struct(msgspec.Struct, gc=False):
    """Part of a frame; a field that is missing or null is None."""


class _Block(_Struct):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    thinking: str | None = None


class _Delta(_Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Usage(_Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(_Struct):
    usage: _Usage | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None


class Frame(_Struct):
    """One event's data."""

    type: str | None = None
    delta: _Delta | None = None
    index: int = 0
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None
    content: list[_Block] | None = None
    stop_reason: str | None = None


_decoder = msgspec.json.Decoder(Frame)


class Reader:
    """Folds events into an answer. Unknown events and deltas are normal, and nothing."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.reason: str | None = None
        self.ended = False
        self.progressed = False

    def take(self, frame: bytes) -> None:
        """See timothy.providers.reading.Reader."""
        event = decoded(frame, _decoder)
        if event.error or event.type == "error":
            raise failure(event.error or words_of(frame))
        if event.type == "content_block_delta" and event.delta is not None:
            self._delta(event.index, event.delta)
        elif event.type == "content_block_start" and event.content_block is not None:
            self._block(event.index, event.content_block)
        elif event.type == "message_stop":
            self.ended = True
        else:
            self._message(event)

    def _message(self, event: Frame) -> None:
        """Its beginning and end; or the whole, from a server that does not stream."""
        if event.message is not None and event.message.usage is not None:
            self._count(event.message.usage)
        if event.usage is not None:
            self._count(event.usage)
        if event.type == "message":
            for index, block in enumerate(event.content or ()):
                self._block(index, block)
            self.reason = event.stop_reason
        if event.delta is not None and event.delta.stop_reason:
            self.reason = event.delta.stop_reason

    def _block(self, index: int, block: _Block) -> None:
        if block.type == "tool_use":
            self.answer.call(index, block.id, block.name, block.input or None)
        if block.thinking:
            self.answer.reasoning(block.thinking)
        if block.text:
            self.answer.text(block.text)

    def _delta(self, index: int, delta: _Delta) -> None:
        if delta.text:
            self.answer.text(delta.text)
        elif delta.thinking:
            self.answer.reasoning(delta.thinking)
        elif delta.partial_json:
            self.answer.call(index, None, None, delta.partial_json)

    def _count(self, usage: _Usage) -> None:
        """The wire tells cached tokens apart from the input; here they are a part of it."""
        cached, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
        given = usage.input_tokens
        if given is not None:
            given += (cached or 0) + (written or 0)
        self.answer.count(given, usage.output_tokens, cached)


class Driver(HttpDriver):
    """A server that speaks Messages."""

    def url(self) -> str:
        """`base_url` as Anthropic's own client takes it, without `/v1`; not doubled if it is there."""
        base = self.settings.base_url.rstrip("/").removesuffix("/messages").removesuffix("/v1")
        return f"{base}/v1/messages"

    def headers(self) -> dict[str, str]:
        """The wire's version, and the key, where there is one."""
        return {"anthropic-version": VERSION, **({"x-api-key": self.key} if self.key else {})}

    def body(self, request: ModelRequest, lacking: frozenset[str]) -> dict[str, Any]:
        """See HttpDriver."""
        body: dict[str, Any] = {
            "model": self.settings.model,
            "max_tokens": self._max_tokens(lacking),
            "messages": _messages(prepared(request, self.settings), continues=request.continues),
            "stream": True,
        }
        if request.system.strip():
            body["system"] = request.system
        if request.tools and self.settings.tools:
            body["tools"] = [
                {"name": spec.name, "description": spec.description, "input_schema": spec.schema}
                for spec in request.tools
            ]
        return body

    def lacks(self, message: str, request: ModelRequest) -> str | None:
        """Room for so many tokens (the name is the limit), or an answer to go on with."""
        if limit := _MAX_TOKENS_REFUSED.search(message):
            return f"max_tokens {limit[1]}"
        return PREFILL if request.continues and _PREFILL_REFUSED.search(message) else None

    def reader(self) -> Reader:
        """See HttpDriver."""
        return Reader()

    def framer(self) -> sse.Framer:
        """See HttpDriver."""
        return sse.Framer()

    def _max_tokens(self, lacking: frozenset[str]) -> int:
        limits = [int(lack.split()[1]) for lack in lacking if lack.startswith("max_tokens ")]
        return min([self.settings.max_tokens or MAX_TOKENS, *limits])


def words_of(frame: bytes) -> Any:
    """An error event without an error object: all of it is the message."""
    return {"message": frame.decode("utf-8", "replace")}


def _messages(messages: list[Message], *, continues: bool) -> list[dict[str, Any]]:
    """User and assistant in turns, the user first; and last, unless the assistant goes on."""
    if not messages or messages[0].role == "assistant":
        messages = [Message("user", EMPTY), *messages]
    if messages[-1].role == "assistant" and not continues:
        messages = [*messages, Message("user", EMPTY)]
    told: list[dict[str, Any]] = []
    for side, group in groupby(messages, key=lambda message: message.role == "assistant"):
        blocks = [block for message in group for block in _blocks(message)]
        told.append({"role": "assistant" if side else "user", "content": blocks})
    if told[-1]["role"] == "assistant":
        _trim(told[-1]["content"])
    return told


def _trim(blocks: list[dict[str, Any]]) -> None:
    """The wire refuses an answer to go on with that ends in a space."""
    if blocks and blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip() or EMPTY


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": _id(message.call_id or ""),
                "content": message.text or EMPTY,
            }
        ]
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*map(_image, message.images), *text, *map(_call, message.calls)] or [
        {"type": "text", "text": EMPTY}
    ]


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _call(call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": _id(call.call_id), "name": call.name, "input": call.input}


def _id(call_id: str) -> str:
    """An id of another wire in the letters that this one takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id) or "call"
