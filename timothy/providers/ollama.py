"""Ollama's own wire: `POST /api/chat`, answered in JSON lines.

Fields as in Ollama's API document, "Generate a chat completion". It sends no headers until the model is
loaded, which takes minutes, and giving up cancels the load: so its timers are long.
"""

from typing import Any, ClassVar

import msgspec

from timothy.conversation import Message, ModelRequest
from timothy.events import Status
from timothy.providers import ndjson
from timothy.providers.answer import Answer
from timothy.providers.failures import failure
from timothy.providers.http import PREFILL, HttpDriver
from timothy.providers.prompt import function, prepared
from timothy.providers.reading import decoded


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct, gc=False):
    function: _Function | None = None
    id: str | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class Line(msgspec.Struct, gc=False):
    """One line."""

    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Line)


class Reader:
    """Folds lines into an answer."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.reason: str | None = None
        self.ended = False
        self.progressed = False
        self._calls = 0

    def take(self, frame: bytes) -> None:
        """See timothy.providers.reading.Reader."""
        line = decoded(frame, _decoder)
        if line.error:
            raise failure(line.error)
        if line.message is not None:
            self._message(line.message)
        if line.done:
            self.answer.count(line.prompt_eval_count, line.eval_count)
            self.reason = line.done_reason or "stop"
            self.ended = True

    def _message(self, message: _Message) -> None:
        if message.thinking:
            self.answer.reasoning(message.thinking)
        if message.content:
            self.answer.tagged(message.content)
        for call in message.tool_calls or ():
            function = call.function or _Function()
            self.answer.call(self._calls, call.id, function.name, function.arguments)
            self._calls += 1  # every one is whole: two alike are two calls


class Driver(HttpDriver):
    """An Ollama server."""

    slow_start: ClassVar[Status] = Status("loading_model", "The model is being loaded")
    slow_start_s: ClassVar[float] = 1.0

    def url(self) -> str:
        """`base_url` is the server's root."""
        base = self.settings.base_url.rstrip("/").removesuffix("/chat").removesuffix("/api")
        return f"{base}/api/chat"

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
        options = {
            "num_predict": self.settings.max_tokens,
            "num_ctx": self.settings.context_window,
            "temperature": self.settings.temperature,
        }
        given = {name: value for name, value in options.items() if value is not None}
        if given:
            body["options"] = given
        if request.tools and self.settings.tools:
            body["tools"] = [function(spec) for spec in request.tools]
        return body

    def lacks(self, message: str, request: ModelRequest) -> str | None:
        """An answer to go on with."""
        return PREFILL if request.continues and "assistant" in message.lower() else None

    def reader(self) -> Reader:
        """See HttpDriver."""
        return Reader()

    def framer(self) -> ndjson.Framer:
        """See HttpDriver."""
        return ndjson.Framer()


def _messages(request: ModelRequest, messages: list[Message]) -> list[dict[str, Any]]:
    names = {call.call_id: call.name for message in messages for call in message.calls}
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *(_message(message, names) for message in messages)]


def _message(message: Message, names: dict[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        told["tool_name"] = names.get(message.call_id or "", "")
    if message.images:
        told["images"] = [image.data for image in message.images]
    if message.calls:
        told["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.input}} for call in message.calls
        ]
    return told
