"""The configuration: TOML, overridden by the environment, checked once at the start."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import platformdirs

from timothy.errors import ConfigError

DriverName = Literal["openai", "anthropic", "ollama", "local", "scripted"]
TitleMaker = Literal["first_words", "model"]
LOCAL_DRIVERS = ("ollama", "local")
_UNITS = {"s": 1, "m": 60, "h": 3600}
_MOST = {"heartbeat_s": 20, "checkpoint_s": 2}  # what clients and the log are promised


class Section(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A table of the file: an unknown key in it is an error."""


class Turn(Section, frozen=True):
    """How long things may take in a turn, in seconds; `max_text_mb` in megabytes of UTF-8."""

    ceiling_s: float = 1800
    permission_s: float = 600
    checkpoint_s: float = 1.0
    max_text_mb: float = 32


class Stream(Section, frozen=True):
    """`heartbeat_s`: the longest silence of an event stream."""

    heartbeat_s: float = 20


class Server(Section, frozen=True):
    """`hosts`: names, besides the loopback ones, that a browser may call this server by."""

    max_body_mb: float = 8
    hosts: tuple[str, ...] = ()


class UsageSettings(Section, frozen=True):
    """`currency` names what all prices are in."""

    currency: str = "USD"


class Tools(Section, frozen=True):
    """`workspace`: the one folder that file tools and the shell see, absolute or in the home."""

    workspace: str = "workspace"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    searxng_url: str = ""


class Notifications(Section, frozen=True):
    """Addresses called when a turn ends or waits: JSON to `webhook`, text to an `ntfy` topic.

    Only for turns that nobody watches, unless `always`.
    """

    webhook: str = ""
    ntfy: str = ""
    always: bool = False


class Titles(Section, frozen=True):
    """What names a session after its first answer: its message's first words, or a model.

    `model` is an id of `/v1/models`, "" is the chain as it stands.
    """

    by: TitleMaker = "first_words"
    model: str = ""


class McpServer(Section, frozen=True):
    """One MCP server: a `command` with `args` (stdio), or a `url` (streamable HTTP)."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""


class ProviderSettings(Section, frozen=True):
    """One entry of the chain. Times in seconds; prices per million tokens, None is unknown.

    `first_content_timeout_s` counts from the request to the first content, `idle_timeout_s` between
    contents; None means the driver's default (15 minutes for a local one, else 5).
    """

    name: str
    driver: DriverName
    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    connect_timeout_s: float = 10
    first_content_timeout_s: float | None = None
    idle_timeout_s: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    price_cached: float | None = None
    max_tokens: int | None = None
    context_window: int | None = None
    tools: bool = True
    vision: bool = False
    script: str = ""

    @property
    def silence_s(self) -> float:
        """The longest wait between contents."""
        if self.idle_timeout_s is not None:
            return self.idle_timeout_s
        return 900 if self.driver in LOCAL_DRIVERS else 300

    @property
    def first_content_s(self) -> float:
        """The longest wait for the first content."""
        return self.silence_s if self.first_content_timeout_s is None else self.first_content_timeout_s

    def api_key(self, environment: Mapping[str, str] = os.environ) -> str:
        """The key that `api_key_env` names, "" when none is named. Raises ConfigError when it is not set."""
        if not self.api_key_env:
            return ""
        if self.api_key_env not in environment:
            raise ConfigError(
                f"provider {self.name!r}: the environment variable {self.api_key_env} is not set"
            )
        return environment[self.api_key_env]


class Config(Section, frozen=True):
    """Everything that can be configured. No provider at all means the embedded local model."""

    turn: Turn = Turn()
    stream: Stream = Stream()
    server: Server = Server()
    usage: UsageSettings = UsageSettings()
    tools: Tools = Tools()
    notify: Notifications = Notifications()
    titles: Titles = Titles()
    providers: tuple[ProviderSettings, ...] = ()
    mcp: tuple[McpServer, ...] = ()


EMBEDDED = ProviderSettings(
    name="embedded", driver="local", model="smollm2-135m-instruct", context_window=4096, tools=False
)


def default_home(environment: Mapping[str, str] = os.environ) -> Path:
    """TIMOTHY_HOME, else the platform's folder for a user's data."""
    return Path(environment.get("TIMOTHY_HOME") or platformdirs.user_data_dir("timothy", appauthor=False))


def load(home: Path, file: Path | None = None, environment: Mapping[str, str] = os.environ) -> Config:
    """The checked configuration from `file`, or `timothy.toml` in `home` where there is one.

    Raises ConfigError, which names the file or the variable, the key, and what is allowed.
    """
    path = file or home / "timothy.toml"
    raw = _read(path, required=file is not None)
    config = _convert(raw, str(path))
    overrides = _overrides(environment)
    if overrides:
        merged = {**raw, **{name: {**raw.get(name, {}), **table} for name, table in overrides.items()}}
        config = _convert(merged, f"{path} with the environment's TIMOTHY_* and TURN_TIMEOUT")
    _check(config, str(path), environment)
    return config


def chain(config: Config) -> tuple[ProviderSettings, ...]:
    """The configured providers, or the embedded model when there are none."""
    return config.providers or (EMBEDDED,)


def seconds(text: str) -> float:
    """A duration such as `45m`, `90s`, `1h` or `2700`, in seconds. Raises ConfigError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is no duration: write seconds (2700), or a number with s, m or h (45m)")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.exists() and not required:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is no TOML: {error}") from error


def _overrides(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Tables from `TIMOTHY_SECTION_KEY` variables of scalar keys, and from TURN_TIMEOUT."""
    tables: dict[str, dict[str, Any]] = {}
    for section, kind in (("turn", Turn), ("stream", Stream), ("server", Server), ("usage", UsageSettings)):
        for key in kind.__struct_fields__:
            variable = f"TIMOTHY_{section}_{key}".upper()
            if variable in environment:
                tables.setdefault(section, {})[key] = _scalar(variable, environment[variable], key)
    if environment.get("TURN_TIMEOUT"):
        tables.setdefault("turn", {})["ceiling_s"] = _duration("TURN_TIMEOUT", environment["TURN_TIMEOUT"])
    return tables


def _scalar(variable: str, value: str, key: str) -> Any:
    if key.endswith("_s"):
        return _duration(variable, value)
    if key == "hosts":
        return [host.strip() for host in value.split(",") if host.strip()]
    if key == "currency":
        return value
    try:
        return float(value)
    except ValueError as error:
        raise ConfigError(f"{variable}: {value!r} is no number") from error


def _duration(variable: str, value: str) -> float:
    try:
        return seconds(value)
    except ConfigError as error:
        raise ConfigError(f"{variable}: {error.message}") from error


def _convert(raw: dict[str, Any], where: str) -> Config:
    try:
        return msgspec.convert(raw, Config)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        key = path.strip("`.") or "(top level)"
        raise ConfigError(f"{where}: key {key}: {reason}. {_allowed(key)}".rstrip()) from error


def _allowed(key: str) -> str:
    """What may stand in the table that `key` is in, for the error's reader."""
    tables: dict[str, type[Section]] = {
        "turn": Turn,
        "stream": Stream,
        "server": Server,
        "usage": UsageSettings,
        "tools": Tools,
        "notify": Notifications,
        "titles": Titles,
        "providers": ProviderSettings,
        "mcp": McpServer,
    }
    table = tables.get(re.split(r"[.\[]", key)[0], Config)
    choices = {ProviderSettings: ("driver", DriverName), Titles: ("by", TitleMaker)}
    key, kinds = choices.get(table, ("", None))
    choice = f"; {key} is one of {', '.join(get_args(kinds))}" if key else ""
    return f"Allowed keys: {', '.join(table.__struct_fields__)}{choice}"


def _check(config: Config, where: str, environment: Mapping[str, str]) -> None:
    _positive(config, where)
    if config.turn.ceiling_s <= config.turn.permission_s:
        raise ConfigError(
            f"{where}: turn.ceiling_s (TURN_TIMEOUT) is {config.turn.ceiling_s:g} s and must exceed"
            f" turn.permission_s, {config.turn.permission_s:g} s"
        )
    for key in ("webhook", "ntfy"):
        address = getattr(config.notify, key)
        if address and not address.startswith(("http://", "https://")):
            raise ConfigError(
                f"{where}: key notify.{key}: must start with http:// or https://, is {address!r}"
            )
    _check_mcp(config, where)
    names = [entry.name for entry in config.providers]
    for entry in config.providers:
        _check_provider(entry, where, names)
        entry.api_key(environment)


def _positive(config: Config, where: str) -> None:
    for name in ("turn", "stream", "server"):
        section = getattr(config, name)
        for key in section.__struct_fields__:
            value = getattr(section, key)
            most = _MOST.get(key, 1e9)
            if isinstance(value, (int, float)) and not 0 < value <= most:
                allowed = f"above 0, at most {most:g}" if key in _MOST else "above 0"
                raise ConfigError(f"{where}: key {name}.{key}: {value:g} is out of range; allowed: {allowed}")


def _check_mcp(config: Config, where: str) -> None:
    names = [server.name for server in config.mcp]
    for server in config.mcp:
        key = f"{where}: key mcp (entry {server.name!r})"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", server.name) or names.count(server.name) > 1:
            raise ConfigError(f"{key}: every entry needs a name of its own, of letters, digits, _ and -")
        if bool(server.command) == bool(server.url):
            raise ConfigError(f"{key}: give either command (with args) or url, and not both")


def _check_provider(entry: ProviderSettings, where: str, names: list[str]) -> None:
    key = f"{where}: key providers (entry {entry.name!r})"
    if not entry.name or names.count(entry.name) > 1:
        raise ConfigError(f"{key}: every entry needs a name of its own")
    if entry.driver in ("openai", "anthropic", "ollama") and not entry.base_url.startswith(
        ("http://", "https://")
    ):
        raise ConfigError(f"{key}.base_url: must start with http:// or https://, is {entry.base_url!r}")
    if entry.driver != "scripted" and not entry.model and entry.driver != "local":
        raise ConfigError(f"{key}.model: must name a model")
    for field in (
        "connect_timeout_s",
        "idle_timeout_s",
        "first_content_timeout_s",
        "max_tokens",
        "context_window",
    ):
        value = getattr(entry, field)
        if value is not None and not 0 < value < 1e9:
            raise ConfigError(f"{key}.{field}: {value:g} is out of range; allowed: above 0")
    for field in ("price_in", "price_out", "price_cached"):
        price = getattr(entry, field)
        if price is not None and not 0 <= price < 1e9:
            raise ConfigError(f"{key}.{field}: {price:g} is out of range; allowed: 0 or more")
