"""The Chat Completions wire: OpenAI, llama.cpp, vLLM, LM Studio, OpenRouter, LiteLLM and their kin.

Fields as in the OpenAI API reference, "Chat completions" and "Streaming events"; the liberties are those
that the named servers take.
"""

import re
from typing import Any

import msgspec

from timothy.conversation import Call, Image, Message, ModelRequest
from timothy.events import Status
from timothy.providers import sse
from timothy.providers.answer import Answer
from timothy.providers.failures import failure
from timothy.providers.http import PREFILL, HttpDriver
from timothy.providers.prompt import function, prepared
from timothy.providers.reading import decoded

STREAM_OPTIONS, MAX_TOKENS = "stream_options", "max_tokens"
_PREFILL_REFUSED = re.compile(r"assistant|prefill|last message|final message|user message|\brole", re.I)


class _Struct(msgspec.Struct, gc=False):
    """Part of a frame; a field that is missing or null is None."""


class _Function(_Struct):
    name: str | None = None
    arguments: Any = None


class _CallPiece(_Struct):
    function: _Function | None = None
    id: str | None = None
    index: int | None = None


class _Delta(_Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[_CallPiece] | None = None
    refusal: str | None = None


class _Choice(_Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    message: _Delta | None = None
    error: Any = None


class _Details(_Struct):
    cached_tokens: int | None = None


class _Usage(_Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Progress(_Struct):
    total: int = 0
    processed: int = 0


class Chunk(_Struct):
    """One frame."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    error_type: Any = None
    error_message: Any = None
    object: Any = None
    message: Any = None
    code: Any = None
    type: Any = None
    status: Any = None
    status_code: Any = None
    prompt_progress: _Progress | None = None


_decoder = msgspec.json.Decoder(Chunk)


class Reader:
    """Folds chunks into an answer."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.reason: str | None = None
        self.ended = False
        self.progressed = False

    def take(self, frame: bytes) -> None:
        """See timothy.providers.reading.Reader."""
        if frame[:6] == b"[DONE]":
            self.ended = True
            return
        chunk = decoded(frame, _decoder)
        named = chunk.error or chunk.error_type or chunk.error_message or chunk.object == "error"
        if named or (chunk.choices is None and _bare(chunk)):
            raise failure(_error(chunk))
        for choice in chunk.choices or ():
            self._choice(choice)
        if chunk.usage is not None:
            self._count(chunk.usage)
        if chunk.prompt_progress is not None:
            self._progress(chunk.prompt_progress)

    def _choice(self, choice: _Choice) -> None:
        if choice.error:
            raise failure(choice.error)
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(delta)
        if choice.finish_reason:
            self.reason = choice.finish_reason

    def _delta(self, delta: _Delta) -> None:
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning:
            self.answer.reasoning(_plain(reasoning))
        if delta.content:
            if isinstance(delta.content, str):
                self.answer.tagged(delta.content)
            else:
                self._parts(delta.content)
        if delta.refusal:
            self.answer.text(delta.refusal)
        if delta.tool_calls:
            self._calls(delta.tool_calls)

    def _parts(self, parts: Any) -> None:
        """Content as a list of typed parts, as Mistral's reasoning models send it."""
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and (thinking := part.get("thinking")):
                self.answer.reasoning(_plain(thinking))
            elif isinstance(part, dict) and (text := part.get("text")):
                self.answer.tagged(_plain(text))

    def _calls(self, pieces: list[_CallPiece]) -> None:
        for place, piece in enumerate(pieces):
            index = place if piece.index is None and len(pieces) > 1 else piece.index
            function = piece.function or _Function()
            self.answer.call(index, piece.id, function.name, function.arguments)

    def _count(self, usage: _Usage) -> None:
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
        self.answer.count(usage.prompt_tokens, usage.completion_tokens, cached)

    def _progress(self, progress: _Progress) -> None:
        self.progressed = True
        if progress.processed < progress.total:
            told = f"Reading the prompt: {progress.processed} of {progress.total} tokens"
            self.answer.say(Status("reading_prompt", told))


class Driver(HttpDriver):
    """A server that speaks Chat Completions."""

    def url(self) -> str:
        """`base_url` as OpenAI's own client takes it, with `/v1`."""
        base = self.settings.base_url.rstrip("/")
        return base if base.endswith("/chat/completions") else base + "/chat/completions"

    def headers(self) -> dict[str, str]:
        """A bearer token, where there is a key."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def body(self, request: ModelRequest, lacking: frozenset[str]) -> dict[str, Any]:
        """See HttpDriver."""
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": _messages(request, prepared(request, self.settings)),
            "stream": True,
        }
        if STREAM_OPTIONS not in lacking:
            body["stream_options"] = {"include_usage": True}
        if self.settings.max_tokens is not None:
            body["max_completion_tokens" if MAX_TOKENS in lacking else "max_tokens"] = (
                self.settings.max_tokens
            )
        if self.settings.temperature is not None:
            body["temperature"] = self.settings.temperature
        if request.tools and self.settings.tools:
            body["tools"] = [function(spec) for spec in request.tools]
        return body

    def lacks(self, message: str, request: ModelRequest) -> str | None:
        """Usage in streams, the old name of the token limit, or an answer to go on with."""
        if "stream_options" in message:
            return STREAM_OPTIONS
        if "max_completion_tokens" in message:
            return MAX_TOKENS
        return PREFILL if request.continues and _PREFILL_REFUSED.search(message) else None

    def reader(self) -> Reader:
        """See HttpDriver."""
        return Reader()

    def framer(self) -> sse.Framer:
        """See HttpDriver."""
        return sse.Framer()


def _bare(chunk: Chunk) -> bool:
    """Whether it is an error object and nothing around it, as some proxies send after `event: error`."""
    codes = (chunk.code, chunk.status, chunk.status_code)
    return isinstance(chunk.message, str) and any(code is not None for code in codes)


def _error(chunk: Chunk) -> Any:
    if isinstance(chunk.error, str | dict):
        beside = {"code": chunk.code, "status": chunk.status, "status_code": chunk.status_code}
        return {"error": chunk.error} | {key: value for key, value in beside.items() if value is not None}
    return chunk.error or {
        "error_type": chunk.error_type,
        "error_message": chunk.error_message,
        "message": chunk.message,
        "code": chunk.code,
        "status": chunk.status,
        "status_code": chunk.status_code,
        "type": chunk.type,
    }


def _plain(value: Any) -> str:
    """The text in a string, or in parts of `{"text": ...}`."""
    if isinstance(value, list):
        return "".join(_plain(part) for part in value)
    if isinstance(value, dict):
        return _plain(value.get("text"))
    return value if isinstance(value, str) else ""


def _messages(request: ModelRequest, messages: list[Message]) -> list[dict[str, Any]]:
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *(_message(message) for message in messages)]


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    if message.calls:
        calls = [_call(call) for call in message.calls]
        return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
    if message.images:
        return {"role": message.role, "content": [*_text(message.text), *map(_image, message.images)]}
    return {"role": message.role, "content": message.text}


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def _call(call: Call) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.input).decode()
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
