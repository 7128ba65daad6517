"""Tool names on the wire: most providers take letters, digits, `_` and `-` only, at most 64 of them."""

import functools
import hashlib
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec

from timothy.conversation import Message, ModelRequest
from timothy.events import Event, ToolCall, ToolCallStarted

LONGEST = 64  # OpenAI's and Anthropic's limit for a function's name
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


@functools.lru_cache(1000)
def wire_name(name: str) -> str:
    """`name` as providers take it; two different names stay different."""
    plain = _FOREIGN.sub("__", name)
    if plain == name and len(name) <= LONGEST:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{plain[: LONGEST - 7]}_{mark}"


class WireNames:
    """One request with its tools' names as the wire takes them, and the way back for its answer."""

    def __init__(self, request: ModelRequest) -> None:
        used = [tool.name for tool in request.tools]
        used += [call.name for message in request.messages for call in message.calls]
        self._back = {wire_name(name): name for name in used if wire_name(name) != name}
        self.request = self._renamed(request) if self._back else request

    def events(self, events: Iterator[Event]) -> Iterator[Event]:
        """The answer's events with the tools' own names."""
        return self._translated(events) if self._back else events

    def _renamed(self, request: ModelRequest) -> ModelRequest:
        replace: Any = msgspec.structs.replace
        tools = tuple(replace(tool, name=wire_name(tool.name)) for tool in request.tools)
        messages = tuple(map(_message, request.messages))
        renamed: ModelRequest = replace(request, tools=tools, messages=messages)
        return renamed

    def _translated(self, events: Iterator[Event]) -> Iterator[Event]:
        source: Any = events
        with closing(source):
            for event in events:
                if isinstance(event, (ToolCallStarted, ToolCall)) and event.name in self._back:
                    event = msgspec.structs.replace(event, name=self._back[event.name])
                yield event


def _message(message: Message) -> Message:
    if not message.calls:
        return message
    calls = tuple(msgspec.structs.replace(call, name=wire_name(call.name)) for call in message.calls)
    return msgspec.structs.replace(message, calls=calls)
