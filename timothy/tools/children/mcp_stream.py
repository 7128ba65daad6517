"""What an MCP server says, made readable: what the SDK cannot take must not leave a call waiting."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, jsonrpc_message_adapter
from pydantic import ValidationError

from timothy.text import to_json

MOST_NOISE = 1_000
_ID = re.compile(r'"id"\s*:\s*(\d{1,15})\b')


class Ending(asyncio.Event):
    """Set when a server's stream ended; `reason` is why, where it was ended here."""

    reason = ""


class Watched:
    """A transport's stream of messages that tells when it ends, which is when the server died.

    A server that says too much that is no message is taken for dead.
    """

    def __init__(self, stream: Any, ended: Ending) -> None:
        self._stream = stream
        self._ended = ended
        self._noise = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "Watched":
        return self

    async def __anext__(self) -> Any:
        try:
            message = readable(await self._stream.__anext__())
            self._noise += isinstance(message, Exception)
            if self._noise > MOST_NOISE:
                self._ended.reason = f"it printed more than {MOST_NOISE} lines that are no messages of MCP"
                raise StopAsyncIteration
            return message
        except BaseException:
            self._ended.set()
            raise

    async def __aenter__(self) -> "Watched":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)


@asynccontextmanager
async def watched(transport: AbstractAsyncContextManager[Any], ended: Ending) -> AsyncIterator[Any]:
    """The transport's two streams; `ended` is set when the server's ends."""
    async with transport as (read, write):
        yield Watched(read, ended), write


def readable(message: Any) -> Any:
    """`message`; where it is the SDK's complaint about a line, that line repaired or, failing that, an error.

    Half a surrogate pair is the usual case: a server in JavaScript that cut a text within an emoji.
    """
    if not isinstance(message, ValidationError):
        return message
    line = message.errors()[0].get("input")
    if not isinstance(line, str) or '"jsonrpc"' not in line:
        return message
    for repair in (_repaired, _refused):
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(repair(line), by_name=False))
        except (ValueError, RecursionError):
            continue
    return message


def _repaired(line: str) -> bytes:
    return to_json(json.loads(line))


def _refused(line: str) -> bytes:
    """Its call's error: the id stands at one end of the line or the other."""
    found = _ID.search(line[:200]) or _ID.search(line[-200:])
    if found is None or '"method"' in line[:200]:
        raise ValueError("no answer to anything")
    error = {"code": PARSE_ERROR, "message": "the MCP server's answer cannot be read"}
    return to_json({"jsonrpc": "2.0", "id": int(found[1]), "error": error})


def words(error: BaseException) -> str:
    """What went wrong, also inside a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:500]
