"""The configuration: TOML, overridden by the environment, checked once at the start."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import platformdirs

from timothy.config.checks import check
from timothy.config.tables import (
    Assistant,
    Config,
    DriverName,
    McpServer,
    Notifications,
    ProviderSettings,
    Section,
    Server,
    Stream,
    TitleMaker,
    Titles,
    Tools,
    Turn,
    UsageSettings,
)
from timothy.errors import ConfigError

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"{_NUMBER}|(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")
_UNITS = (1, 3600, 60, 1)


def default_home(environment: Mapping[str, str] = os.environ) -> Path:
    """TIMOTHY_HOME, else the platform's folder for a user's data."""
    return Path(environment.get("TIMOTHY_HOME") or platformdirs.user_data_dir("timothy", appauthor=False))


def load(home: Path, file: Path | None = None, environment: Mapping[str, str] = os.environ) -> Config:
    """The checked configuration from `file`, or `timothy.toml` in `home` where there is one.

    Raises ConfigError, which names the file or the variable, the key, and what is allowed.
    """
    path = file or home / "timothy.toml"
    raw = _read(path, required=file is not None)
    where = str(path)
    config = _convert(raw, where)
    overrides = _overrides(environment)
    if overrides:
        merged = {**raw, **{name: {**raw.get(name, {}), **table} for name, table in overrides.items()}}
        where = f"{path} with the environment's TIMOTHY_* and TURN_TIMEOUT"
        config = _convert(merged, where)
    check(config, where, environment)
    return config


def seconds(text: str) -> float:
    """A duration such as `45m`, `90s`, `1h30m` or `2700`, in seconds. Raises ConfigError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ConfigError(
            f"{text!r} is no duration: write seconds (2700), or numbers with h, m and s (45m, 1h30m)"
        )
    return sum(float(number) * unit for number, unit in zip(match.groups("0"), _UNITS, strict=True))


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
        "assistant": Assistant,
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
