"""Tools of MCP servers: asked through a helper process, named `server.tool`, and never trusted unasked."""

import importlib.util
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

import timothy
from timothy.cancel import Cancel
from timothy.config import McpServer
from timothy.text import to_json
from timothy.tools.base import Context, Danger, Tool, ToolError
from timothy.tools.process import Limits, Supervised, environment

MISSING = "the extra `mcp` is not installed: pip install 'timothy[mcp]'"
LIMITS = Limits(
    time_s=1e9,
    memory=8 << 30,
    file_bytes=1 << 40,
    kept_output=65_536,
    most_output=1 << 60,
    processes=0,  # it lives as long as this server: to look at it four times a second would cost too much
)
ANSWER_S = 5.0
CHECK_S = 20.0
CLOSE_S = 1.5
LONGEST_CALL_S = 3600.0
LONGEST_DELAY_S = 60.0


class Listed(msgspec.Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    description: str
    schema: dict[str, Any]


class ServerStatus(msgspec.Struct, frozen=True):
    """How a server does: `state` is `starting`, `ready` or `waiting`; `starts` counts its lives.

    `tools` counts those that are offered; `left_out`, by the reason, those that cannot be.
    """

    name: str
    state: str
    tools: int = 0
    starts: int = 0
    error: str = ""
    next_start_s: float | None = None
    left_out: dict[str, int] = {}
    listed: tuple[Listed, ...] = ()


class Servers:
    """The configured MCP servers, for the life of this process. Without any, nothing is started."""

    def __init__(self, settings: tuple[McpServer, ...], home: Path, first_delay_s: float = 0.5) -> None:
        self._settings = settings
        self._home = home
        self._first_delay_s = first_delay_s
        self._lock = threading.Lock()
        self._helper: Supervised | None = None
        self._folder: Path | None = None
        self._starts = 0
        self._next_start = 0.0
        self._closed = False

    def start(self) -> None:
        """Begin to start the servers, without waiting for any; a dead helper process is started again."""
        if not self._settings or importlib.util.find_spec("mcp") is None:
            return
        with self._lock:
            if self._closed or (self._helper and self._helper.running) or time.monotonic() < self._next_start:
                return
            if self._helper:
                self._helper.close()
            self._launch()

    def tools(self) -> dict[str, Tool]:
        """The tools of all servers that are ready, by name."""
        found: dict[str, Tool] = {}
        for server in self.status():
            settings = next(entry for entry in self._settings if entry.name == server.name)
            for listed in server.listed if server.state == "ready" else ():
                tool = McpTool(self, settings, listed)
                found[tool.name] = tool
        return found

    def status(self) -> list[ServerStatus]:
        """How each server does; the helper process's own failure is each server's."""
        if not self._settings:
            return []
        if importlib.util.find_spec("mcp") is None:
            return [ServerStatus(entry.name, "waiting", error=MISSING) for entry in self._settings]
        try:
            return msgspec.convert(self.ask({"ask": "servers"}, Cancel(), ANSWER_S, 0), list[ServerStatus])
        except ToolError as error:
            return [ServerStatus(entry.name, "waiting", error=str(error)) for entry in self._settings]

    def ask(
        self, question: dict[str, Any], cancel: Cancel, patience_s: float, start_s: float = ANSWER_S
    ) -> Any:
        """The helper's answer to one question; `start_s` is how long it may take to start.

        Raises ToolError after a cancel, impatience, or the helper's death.
        """
        self.start()
        with self._connected(start_s) as connection:
            connection.settimeout(patience_s)
            cancel.attach(connection)
            try:
                connection.sendall(to_json(question) + b"\n")
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            except OSError as error:
                if cancel.cancelled:
                    raise ToolError("cancelled") from error
                raise ToolError(f"the helper process for MCP servers did not answer: {error}") from error
            finally:
                cancel.detach()
        if cancel.cancelled:
            raise ToolError("cancelled")
        if not answer.endswith(b"\n"):  # nothing, or only its beginning
            raise ToolError("the helper process for MCP servers died; the call may have run")
        try:
            return msgspec.json.decode(answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ToolError(f"the helper process for MCP servers cannot be understood: {error}") from error

    def close(self) -> None:
        """End all servers and the helper: in order if they can, in any case."""
        with self._lock:
            self._closed = True
            helper, self._helper = self._helper, None
        if helper is None:
            return
        try:
            self._end(helper)
        finally:
            helper.close()
            shutil.rmtree(str(self._folder))

    def _end(self, helper: Supervised) -> None:
        with (
            suppress(ToolError, OSError),
            self._connected(0) as connection,
        ):  # it may be just starting, or dying
            connection.settimeout(ANSWER_S)
            connection.sendall(b'{"ask": "close"}\n')
        deadline = time.monotonic() + CLOSE_S
        while helper.running and time.monotonic() < deadline:
            time.sleep(0.02)

    def _launch(self) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="timothy-mcp-"))
        address = self._folder / "socket"
        address.unlink(missing_ok=True)
        request = {"socket": str(address), "servers": self._settings, "first_delay_s": self._first_delay_s}
        # what the SDK hands on to servers, no more
        passed = {
            name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SHELL") if name in os.environ
        }
        self._helper = Supervised(
            [sys.executable, "-m", "timothy.tools.children.mcp_helper"],
            root=self._home,
            env=environment(PYTHONPATH=str(Path(timothy.__file__).parent.parent), **passed),
            limits=LIMITS,
            input=msgspec.json.encode(request),
        )
        self._helper.begin()
        self._next_start = time.monotonic() + min(self._first_delay_s * 2**self._starts, LONGEST_DELAY_S)
        self._starts += 1

    def _connected(self, start_s: float) -> socket.socket:
        """A new connection to the helper, which may be just starting."""
        deadline = time.monotonic() + start_s
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(Path(self._folder or "nowhere") / "socket"))
                return connection
            except OSError as error:
                connection.close()
                if time.monotonic() > deadline or not (self._helper and self._helper.running):
                    raise ToolError(
                        "the helper process for MCP servers is not running yet, or again"
                    ) from error
            time.sleep(0.02)


class McpTool:
    """One tool of a server, as that describes it; what it says of its own dangers is not believed."""

    native = False

    def __init__(self, servers: Servers, settings: McpServer, listed: Listed) -> None:
        self._servers = servers
        self._server = settings.name
        self._listed = listed
        self.name = f"{settings.name}.{listed.name}"
        self.description = listed.description or self.name
        self.schema = listed.schema
        self.danger: Danger = "network" if settings.url else "execute"

    def misfit(self, input: Any) -> str | None:
        """What is wrong with the arguments, found out in the helper: a stranger's schema can run away."""
        question = {"ask": "check", "name": self.name, "schema": self.schema, "input": input}
        try:
            fault: str | None = self._servers.ask(question, Cancel(), CHECK_S)["fault"]
        except ToolError as error:
            return f"{self.name} cannot be called: {error}"
        return fault

    def subject(self, input: dict[str, Any]) -> str:
        return self._server

    def rationale(self, input: dict[str, Any]) -> str:
        given = to_json(input).decode()[:500]
        return (
            f"Calls {self._listed.name} of the MCP server {self._server} with {given};"
            " that program decides what happens, and is not kept in a sandbox."
        )

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled before it started")
        question = {"ask": "call", "server": self._server, "tool": self._listed.name, "input": input}
        answer = self._servers.ask(question, cancel, LONGEST_CALL_S)
        if "error" in answer:
            raise ToolError(answer["error"])
        return str(answer["text"])
