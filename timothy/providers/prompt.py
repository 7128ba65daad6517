"""A conversation made fit for any wire: no orphans among calls, no empty messages, no two alike in a row."""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

import msgspec

from timothy.config import ProviderSettings
from timothy.conversation import Message, ModelRequest, ToolSpec
from timothy.providers.honest import honest_value
from timothy.text import honest

NO_RESULT = "[no result: the call was interrupted]"
NO_IMAGE = "[an image that this model cannot see]"


def prepared(request: ModelRequest, settings: ProviderSettings) -> list[Message]:
    """The messages as a provider may get them.

    Each call has exactly one result, right after it; images go only to a model with `vision`; to one
    without `tools`, calls and results are told as text. Adjacent messages of one role are one.
    """
    messages: Iterable[Message] = _answered(tuple(_honest(message) for message in request.messages))
    if not settings.vision:
        messages = map(_blind, messages)
    if not settings.tools:
        messages = map(_told, messages)
    return _joined(message for message in messages if _says_something(message))


def noted(request: ModelRequest) -> ModelRequest:
    """The request with the partial answer at its end, where there is one, as a note in a user message."""
    *earlier, partial = request.messages
    if partial.role != "assistant":
        return msgspec.structs.replace(request, continues=False)
    note = Message(
        "user",
        "Your last answer was cut off. It began:\n\n"
        f"{partial.text}\n\n"
        "Go on exactly where it stops. Repeat nothing of it and do not comment on this.",
    )
    return msgspec.structs.replace(request, messages=(*earlier, note), continues=False)


def function(spec: ToolSpec) -> dict[str, Any]:
    """A tool as Chat Completions describes it, and Ollama after it."""
    about = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": about}


def _honest(message: Message) -> Message:
    calls = tuple(msgspec.structs.replace(call, input=honest_value(call.input)) for call in message.calls)
    return msgspec.structs.replace(message, text=honest(message.text), calls=calls)


def _answered(messages: tuple[Message, ...]) -> Iterator[Message]:
    """Each assistant message, then one result for each of its calls; results without a call are dropped."""
    for place, message in enumerate(messages):
        if message.role == "tool":
            continue
        yield message
        following = takewhile(lambda later: later.role == "tool", messages[place + 1 :])
        results = {result.call_id: result for result in following} if message.calls else {}
        for call in message.calls:
            yield results.get(call.call_id) or Message("tool", NO_RESULT, call_id=call.call_id)


def _says_something(message: Message) -> bool:
    return bool(message.role == "tool" or message.text or message.calls or message.images)


def _blind(message: Message) -> Message:
    if not message.images:
        return message
    notes = [NO_IMAGE] * len(message.images)
    return msgspec.structs.replace(message, text="\n".join([message.text, *notes]).strip(), images=())


def _told(message: Message) -> Message:
    if message.role == "tool":
        return Message("user", f"[result of the tool call]\n{message.text}")
    if not message.calls:
        return message
    calls = [
        f"[called {call.name} with {msgspec.json.encode(call.input).decode()}]" for call in message.calls
    ]
    return msgspec.structs.replace(message, text="\n".join([message.text, *calls]).strip(), calls=())


def _joined(messages: Iterable[Message]) -> list[Message]:
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is None or last.role != message.role or message.role == "tool":
            joined.append(message)
        else:
            joined[-1] = msgspec.structs.replace(
                last,
                text="\n\n".join(text for text in (last.text, message.text) if text),
                calls=last.calls + message.calls,
                images=last.images + message.images,
            )
    return joined
