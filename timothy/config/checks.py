"""What a configuration must hold beyond its types; an error names the file, the key and what is allowed."""

import re
from collections.abc import Mapping

from timothy.config.tables import Config, ProviderSettings
from timothy.errors import ConfigError

_MOST = {"heartbeat_s": 20, "checkpoint_s": 2}  # what clients and the log are promised


def check(config: Config, where: str, environment: Mapping[str, str]) -> None:
    """Nothing for a sound configuration read from `where`. Raises ConfigError."""
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
    if entry.temperature is not None and entry.driver == "anthropic":
        raise ConfigError(f"{key}.temperature: Anthropic's Messages have none; take the key out")
    if entry.temperature is not None and not 0 <= entry.temperature <= 2:
        raise ConfigError(f"{key}.temperature: {entry.temperature:g} is out of range; allowed: 0 to 2")
    for field in ("price_in", "price_out", "price_cached"):
        price = getattr(entry, field)
        if price is not None and not 0 <= price < 1e9:
            raise ConfigError(f"{key}.{field}: {price:g} is out of range; allowed: 0 or more")
