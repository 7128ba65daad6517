"""Speaks with MCP servers by the official SDK, whose event loop has this process to itself.

It serves a Unix socket: one connection is one question, a line of JSON, and its answer, another; a connection
that its asker closes cancels the call. A server that dies is started again, later each time.
Protocol: https://modelcontextprotocol.io/specification
"""

import asyncio
import json
import logging
import os
import sys
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED

from timothy.text import to_json
from timothy.tools.children.checks import Checker
from timothy.tools.children.mcp_stream import Ending, watched, words

CONNECT_S = 60.0
LOOK_S = 60.0
LONGEST_DELAY_S = 60.0
STEADY_S = 60.0
MAX_PAGES = 50
MAX_LINE = 64 * 1024 * 1024
MAX_DESCRIPTION = 4_000


class Server:
    """One configured server: connected, or waiting to be started again."""

    def __init__(self, settings: dict[str, Any], first_delay_s: float, checker: Checker) -> None:
        self.settings = settings
        self.tools: list[dict[str, Any]] = []
        self._checker = checker
        self._seen: list[dict[str, Any]] | None = None
        self._left_out: dict[str, int] = {}
        self._first_delay_s = first_delay_s
        self._state = "starting"
        self._error = ""
        self._starts = 0
        self._next_start: float | None = None
        self._client: Client | None = None
        self._ended = Ending()

    def status(self) -> dict[str, Any]:
        """How the server does, for a person."""
        wait = None if self._next_start is None else max(0.0, round(self._next_start - time.monotonic(), 1))
        return {
            "name": self.settings["name"],
            "state": self._state,
            "tools": len(self.tools),
            "starts": self._starts,
            "error": self._error,
            "next_start_s": wait,
            "left_out": self._left_out,
        }

    async def live(self) -> None:
        """Keep the server running for as long as this task does."""
        delay = self._first_delay_s
        while True:
            began = time.monotonic()
            try:
                await self._session()
                self._error = self._ended.reason or "its connection ended"
            except Exception as error:  # noqa: BLE001  whatever it is: named, and tried again
                self._error = self._ended.reason or words(error)
            self._client, self._state = None, "waiting"
            delay = self._first_delay_s if time.monotonic() - began > STEADY_S else delay
            self._next_start = time.monotonic() + delay
            await asyncio.sleep(delay)
            self._next_start, delay = None, min(delay * 2, LONGEST_DELAY_S)

    async def call(self, tool: str, input: dict[str, Any]) -> dict[str, Any]:
        """What the tool answers: `text`, or `error`."""
        name = self.settings["name"]
        if self._client is None:
            return {"error": f"the MCP server {name} is not running ({self._error or self._state})"}
        try:
            result = await self._client.call_tool(tool, input)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                return {"error": str(error)}
            self._ended.set()
            return {"error": f"the MCP server {name} died during the call, which may have run"}
        except Exception as error:  # noqa: BLE001  the transport broke: named, and connected anew
            self._ended.set()
            return {"error": f"the MCP server {name} cannot be reached: {words(error)}"}
        text = "\n".join(_shown(block.model_dump(mode="json", by_alias=True)) for block in result.content)
        if not text and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        return {"error": text or "the tool failed without a word"} if result.is_error else {"text": text}

    async def _session(self) -> None:
        """One life of the server, until its connection ends. Raises whatever keeps it from living."""
        self._state, self._ended = "starting", Ending()
        self._starts += 1
        client = Client(watched(self._transport(), self._ended))
        async with asyncio.timeout(CONNECT_S):
            await client.__aenter__()
        try:
            await self._look(client)
            self._client, self._state, self._error = client, "ready", ""
            while not self._ended.is_set():
                await _within(self._ended, LOOK_S)
                if not self._ended.is_set():
                    await self._look(client)
        finally:
            self._client = None
            await client.__aexit__(None, None, None)

    async def _look(self, client: Client) -> None:
        """Learn which tools there are, and which of them can be offered."""
        async with asyncio.timeout(CONNECT_S):
            listed = await _listed(client)
        if listed != self._seen:
            self.tools, self._left_out = await self._checker.sorted_out(self.settings["name"], listed)
            self._seen = listed

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        if self.settings["url"]:
            return streamable_http_client(self.settings["url"])
        parameters = StdioServerParameters(
            command=self.settings["command"],
            args=list(self.settings["args"]),
            env=dict(self.settings["env"]),
            encoding_error_handler="replace",
        )
        return stdio_client(parameters)


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _listed(client: Client) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += [
            {
                "name": tool.name,
                "description": (tool.description or "")[:MAX_DESCRIPTION],
                "schema": tool.input_schema,
            }
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _shown(block: dict[str, Any]) -> str:
    """A piece of a result as text; of what is no text, what and how much it is."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource_link", "uri": uri}:
            return f"[resource {uri}]"
        case {"type": kind, "data": str(data)}:
            return f"[{kind} {block.get('mimeType', '')}, {len(data) * 3 // 4} bytes]"
    return f"[{block.get('type')}]"


class Helper:
    """All servers, and the socket where they are asked for."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._path = request["socket"]
        delay = request["first_delay_s"]
        self._checker = Checker(f"{self._path}.checks")
        self._servers = {
            settings["name"]: Server(settings, delay, self._checker) for settings in request["servers"]
        }
        self._closing = asyncio.Event()

    async def serve(self) -> None:
        """Serve until somebody asks to close; then let the servers end in order."""
        lives = [asyncio.create_task(server.live()) for server in self._servers.values()]
        lives.append(asyncio.create_task(self._checker.live()))
        listener = await asyncio.start_unix_server(self._connection, self._path, limit=MAX_LINE)
        async with listener:
            await self._closing.wait()
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._unless_gone(json.loads(await reader.readline()), reader)
            if answer is not None:
                writer.write(to_json(answer) + b"\n")
                await writer.drain()
        except ConnectionError:  # the asker is gone
            return
        finally:
            writer.close()

    async def _unless_gone(self, question: dict[str, Any], reader: asyncio.StreamReader) -> Any:
        """The answer; None, and the work cancelled, when the asker closes first."""
        work = asyncio.create_task(self._answer(question))
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return None

    async def _answer(self, question: dict[str, Any]) -> Any:
        match question:
            case {"ask": "servers"}:
                return [{**server.status(), "listed": server.tools} for server in self._servers.values()]
            case {"ask": "call", "server": name, "tool": tool, "input": input}:
                return await self._servers[name].call(tool, input)
            case {"ask": "check", "name": name, "schema": schema, "input": input}:
                return {"fault": await self._checker.fault(name, schema, input)}
            case {"ask": "close"}:
                self._closing.set()
        return {}


if __name__ == "__main__":
    os.umask(0o077)
    logging.getLogger("mcp").setLevel(
        logging.CRITICAL
    )  # nobody reads it, and a noisy server writes it for ever
    asyncio.run(Helper(json.loads(sys.stdin.buffer.read())).serve())
