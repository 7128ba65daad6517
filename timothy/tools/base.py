"""What a tool is: a schema for its arguments, words for the person who is asked, and one blocking run."""

import importlib
import pkgutil
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

import msgspec

import timothy.tools
from timothy.cancel import Cancel
from timothy.config import Config, Tools
from timothy.errors import ConfigError
from timothy.tools.notes import Notes

Danger = Literal["read", "write", "execute", "network"]


class ToolError(Exception):
    """What the model is told as the call's error; never fatal to the turn."""


class Context(msgspec.Struct, frozen=True):
    """What a running tool may see. `workspace` is the one folder of files, `home` holds what lasts."""

    workspace: Path
    home: Path
    notes: Notes
    session_id: str = ""
    settings: Tools = Tools()


class Tool(Protocol):
    """One tool, built once and used by many turns at a time. `schema` is draft 2020-12, of an object.

    `native`: its run is only disk or CPU work, without locks, subprocesses or sockets, so that it may be
    run in a real thread beside an event loop; otherwise it waits in ways that a patched loop understands.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...
    @property
    def danger(self) -> Danger: ...
    @property
    def native(self) -> bool: ...

    def subject(self, input: dict[str, Any]) -> str:
        """What a grant covers: the command's first word and folder, the file's folder, the host."""
        ...

    def rationale(self, input: dict[str, Any]) -> str:
        """One sentence for the person: what will happen, to what, and why it is dangerous."""
        ...

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        """The call's result, for a model. `input` passed `check()`. Blocks; ends promptly on a cancel.

        Raises ToolError when it fails or was cancelled; nothing it started is still running then.
        """
        ...


@runtime_checkable
class JudgesItself(Protocol):
    """A tool whose schema is not to be trusted with this process."""

    def misfit(self, input: Any) -> str | None:
        """What is wrong with the arguments, or None; blocks."""
        ...


@runtime_checkable
class Foresees(Protocol):
    """A tool that refuses some arguments that fit its schema, and knows so before a person is asked."""

    def unfit(self, input: dict[str, Any]) -> str | None:
        """Why the call would be refused, whoever allowed it; None when it may do."""
        ...


def find(config: Config) -> dict[str, Tool]:
    """Every tool of this package that `config` provides for, by name. Those of MCP servers come on top.

    A tool's module has its instance as `TOOL` and, where it needs settings, `configured(config) -> bool`.
    Raises ConfigError when `allow` or `deny` name a tool that there is not.
    """
    tools: dict[str, Tool] = {}
    known: list[str] = []
    for module_info in pkgutil.iter_modules(timothy.tools.__path__):
        module = importlib.import_module(f"timothy.tools.{module_info.name}")
        tool = getattr(module, "TOOL", None)
        if tool is not None:
            known.append(tool.name)
            if getattr(module, "configured", lambda _: True)(config):
                tools[tool.name] = cast(Tool, tool)
    _check_names(config, sorted(known))
    return dict(sorted(tools.items()))


def _check_names(config: Config, known: list[str]) -> None:
    servers = {server.name for server in config.mcp}
    for key in ("allow", "deny"):
        for entry in getattr(config.tools, key):
            name = entry.partition(":")[0]
            if name not in (*known, "*") and name.partition(".")[0] not in servers:
                raise ConfigError(
                    f"the configuration's key tools.{key}: there is no tool {name!r};"
                    f" allowed: {', '.join(known)}, SERVER.TOOL of a configured MCP server, *"
                )


def workspace(config: Config, home: Path) -> Path:
    """The configured workspace folder, made when it is missing.

    Raises ConfigError when the home is in it: a model could read the token, and change the log.
    """
    folder = (home / config.tools.workspace).resolve()  # an absolute one replaces the home
    if home.resolve().is_relative_to(folder):
        raise ConfigError(
            f"the configuration's key tools.workspace: {folder} holds the home {home} with its token and log;"
            " allowed: a folder inside the home, or one elsewhere"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check(tool: Tool, input: Any) -> str | None:
    """What is wrong with the arguments, in words for the model; None when they fit the tool's schema.

    May block, for seconds at worst: a tool with a foreign schema has it worked with elsewhere.
    """
    if isinstance(tool, JudgesItself):
        return tool.misfit(input)
    # here, not above: the children of tools import this module too, and start sooner without jsonschema
    from timothy.tools.arguments import misfit

    fault = misfit(tool.name, tool.schema, input)
    return tool.unfit(input) if fault is None and isinstance(tool, Foresees) else fault


def for_model(result: str, limit: int = 32_000) -> str:
    """`result` in about `limit` bytes of UTF-8: its head, how much was cut, and its tail."""
    raw = result.encode("utf-8", "replace")
    if len(raw) <= limit:
        return result
    head = raw[: limit * 2 // 3].decode("utf-8", "ignore")
    tail = raw[len(raw) - limit // 3 :].decode("utf-8", "ignore")
    cut = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}\n... cut {cut} bytes ...\n{tail}"


def preview(result: str, limit: int = 2_000) -> tuple[str, bool]:
    """The first `limit` characters of `result` for the wire, and whether that is not all."""
    return result[:limit], len(result) > limit
