"""Asks the program that works with strangers' schemas, which may not come back to every question."""

import asyncio
import json
import os
import re
import socket
import sys
from contextlib import suppress
from typing import Any

from timothy.text import to_json
from timothy.tools.children.mcp_stream import words

MAX_LINE = 64 * 1024 * 1024
MAX_SCHEMA = 100_000
CHECK_S = 1
CHECK_ALL_S = 10
CHECK_WAIT_S = 15.0
NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Checker:
    """Asks the program that works with the servers' schemas, and starts it again when it dies."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def live(self) -> None:
        """Keep the program running for as long as this task does."""
        with socket.socket(socket.AF_UNIX) as listener:
            with suppress(FileNotFoundError):  # a helper before this one died
                os.unlink(self._path)
            listener.bind(self._path)
            listener.listen(64)
            while True:
                argv = [sys.executable, "-m", "timothy.tools.children.checker"]
                program = await asyncio.create_subprocess_exec(*argv, stdin=listener.fileno())
                await program.wait()
                await asyncio.sleep(1)

    async def fault(self, name: str, schema: dict[str, Any], input: Any) -> str | None:
        """What is wrong with a call's arguments."""
        question = {"seconds": CHECK_S, "name": name, "schema": schema, "input": input}
        try:
            fault: str | None = await self._answer(question)
        except ValueError:
            return (
                f"{name} cannot be called so: its server's schema takes more than {CHECK_S} s to check these"
                " arguments with, or too much memory. Other arguments may do."
            )
        return fault

    async def sorted_out(
        self, server: str, tools: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Those of a server's `tools` that can be offered; of the others, how many are left out for what.

        Raises ValueError when nobody can tell.
        """
        named = [tool for tool in tools if NAME.fullmatch(f"{server}.{tool['name']}")]
        single = list({tool["name"]: tool for tool in named}.values())
        small = [tool for tool in single if len(to_json(tool["schema"])) <= MAX_SCHEMA]
        told = await self._answer({"seconds": CHECK_ALL_S, "schemas": [tool["schema"] for tool in small]})
        good = [tool for tool, is_good in zip(small, told, strict=True) if is_good]
        left_out = {
            "unusable name": len(tools) - len(named),
            "name listed again": len(named) - len(single),
            f"schema over {MAX_SCHEMA} bytes": len(single) - len(small),
            "unusable schema": len(small) - len(good),
        }
        return good, {reason: count for reason, count in left_out.items() if count}

    async def _answer(self, question: dict[str, Any]) -> Any:
        """Raises ValueError when there is none."""
        try:
            async with asyncio.timeout(CHECK_WAIT_S):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                try:
                    writer.write(to_json(question) + b"\n")
                    return json.loads(await reader.readline())
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise ValueError(f"the program that checks schemas did not answer: {words(error)}") from error
