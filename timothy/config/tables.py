"""The configuration's tables: what each key means, and what it is when nobody says."""

import os
from collections.abc import Mapping
from typing import Literal

import msgspec

from timothy.errors import ConfigError

DriverName = Literal["openai", "anthropic", "ollama", "local", "scripted"]
TitleMaker = Literal["first_words", "model"]
LOCAL_DRIVERS = ("ollama", "local")


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


class Assistant(Section, frozen=True):
    """`instructions`: what every model is told before a conversation."""

    instructions: str = ""


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
    temperature: float | None = None
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
    assistant: Assistant = Assistant()
    usage: UsageSettings = UsageSettings()
    tools: Tools = Tools()
    notify: Notifications = Notifications()
    titles: Titles = Titles()
    providers: tuple[ProviderSettings, ...] = ()
    mcp: tuple[McpServer, ...] = ()


EMBEDDED = ProviderSettings(
    name="embedded", driver="local", model="smollm2-135m-instruct", context_window=4096, tools=False
)


def chain(config: Config) -> tuple[ProviderSettings, ...]:
    """The configured providers, or the embedded model when there are none."""
    return config.providers or (EMBEDDED,)
