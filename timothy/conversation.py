"""What a model is asked: messages, tools, and the request that carries them."""

from typing import Any, Literal

import msgspec


class Image(msgspec.Struct, frozen=True):
    """A picture in a user's message: `media_type` such as "image/png", `data` in base64."""

    media_type: str
    data: str


class Call(msgspec.Struct, frozen=True):
    """A tool call that the model made earlier."""

    call_id: str
    name: str
    input: dict[str, Any]


class Message(msgspec.Struct, frozen=True):
    """One message. Role `tool` answers the call `call_id`; an assistant's `calls` come after its text."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    images: tuple[Image, ...] = ()


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a chain. `model` is an id of `GET /v1/models` that goes first, or None.

    `continues`: the last message is the assistant's own partial, and the model goes on where it stops.
    `session_id`, `turn_id` and `request_id` only label the attempt (ledger, `X-Request-Id`).
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    model: str | None = None
    continues: bool = False
    session_id: str = ""
    turn_id: str = ""
    request_id: str = ""
