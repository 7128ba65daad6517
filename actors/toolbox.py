"""The tools that a turn may use: found once, offered, judged, run."""

from pathlib import Path
from typing import Any

from actors.native import Native
from timothy.cancel import Cancel
from timothy.config import Config
from timothy.conversation import ToolSpec
from timothy.events import ToolCall
from timothy.permissions import Verdict, decide, policy_of
from timothy.tools.base import Context, Tool, ToolError, check, find, workspace
from timothy.tools.mcp import Servers
from timothy.tools.notes import Notes
from timothy.turn.machine import Limits

CLOSE_S = 1.0
MOST_NAMES = 2_000
Granted = frozenset[tuple[str, str]]


class Toolbox:
    """All tools of this server. `switched_off` names tools that one session does not offer."""

    def __init__(self, config: Config, home: Path) -> None:
        self.notes = Notes(home)
        self._config = config
        self._home = home
        self.workspace = workspace(config, home)
        self.tools: dict[str, Tool] = find(config)
        self._built_in = self.tools
        self.servers = Servers(config.mcp, home)
        self.servers.start()
        self._native = Native(Limits().parallel)  # their own: a slow disk keeps only tools waiting

    def refresh(self) -> None:
        """Look at what the MCP servers offer now. Blocks; does nothing when none is configured."""
        if self._config.mcp:
            self.tools = {**self._built_in, **self.servers.tools()}

    def offered(self, switched_off: frozenset[str] = frozenset()) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them now. Blocks."""
        self.refresh()
        return tuple(
            ToolSpec(name, tool.description, dict(tool.schema))  # now: a description may change its mind
            for name, tool in self.tools.items()
            if name not in switched_off
        )

    def judge(
        self, calls: tuple[ToolCall, ...], granted: Granted, switched_off: frozenset[str] = frozenset()
    ) -> tuple[dict[str, Verdict], dict[str, str]]:
        """Each call's verdict by call_id, and what is wrong with the calls that cannot run."""
        offered = {name: tool for name, tool in self.tools.items() if name not in switched_off}
        verdicts: dict[str, Verdict] = {}
        faults: dict[str, str] = {}
        for call in calls:
            tool = offered.get(call.name)
            if call.malformed is not None:
                faults[call.call_id] = f"The arguments are not a JSON object: {call.malformed[:500]}"
            elif tool is None:
                names = ", ".join(offered)[:MOST_NAMES] or "none"
                faults[call.call_id] = f"There is no tool {call.name!r}; there are: {names}"
            elif fault := check(tool, call.input):
                faults[call.call_id] = fault
            else:
                verdicts[call.call_id] = self._verdict(tool, call, granted)
        return verdicts, faults

    def _verdict(self, tool: Tool, call: ToolCall, granted: Granted) -> Verdict:
        holds = (call.name, tool.subject(call.input)) in granted
        return decide(tool, call.input, self._config.tools, holds)

    def run(self, call: ToolCall, session_id: str, cancel: Cancel) -> str:
        """The call's result. Blocks. Raises ToolError."""
        tool = self.tools.get(call.name)
        if tool is None:
            raise ToolError(f"{call.name} is not there any more: its server went, or changed its tools")
        context = Context(self.workspace, self._home, self.notes, session_id, self._config.tools)
        if tool.native:
            return self._native(tool.run, call.input, context, cancel)
        return tool.run(call.input, context, cancel)

    def rows(self) -> list[dict[str, Any]]:
        """What `GET /v1/tools` shows: every tool, and what holds for it."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "schema": dict(tool.schema),
                "danger": tool.danger,
                "policy": policy_of(tool, self._config.tools),
            }
            for tool in self.tools.values()
        ]

    def close(self) -> None:
        """End the MCP servers, and the threads."""
        self.servers.close()
        self._native.close(CLOSE_S)
