"""What the drivers over HTTP share: one attempt, from the request to the terminal event."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import msgspec

import timothy
from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import AuthFailed, ContextOverflow, ProviderRefused, Stopped, StreamCut
from timothy.events import Event, Status
from timothy.providers.names import WireNames
from timothy.providers.prompt import noted
from timothy.providers.reading import Framer, Reader, Recording, fold
from timothy.providers.wire import Exchange
from timothy.stream import terminated

MAX_TRIES = 4
PREFILL = "prefill"  # what a provider lacks that takes no answer to go on with
TOOLS = "tools"  # what a model lacks that can call none
# As Ollama says it, and vLLM that was started without a parser for calls; others in words much like these.
_TOOLS_REFUSED = re.compile(
    r"not support (tools?|function|tool)|tools? (is|are) not supported|enable-auto-tool-choice", re.IGNORECASE
)


class HttpDriver:
    """A driver but for its wire: where to ask, what to send, how to read.

    `key` overrides the key that the settings name; `extra` is merged into every request's body.
    """

    slow_start: ClassVar[Status] = Status("waiting_for_provider", "The provider has not answered yet")
    slow_start_s: ClassVar[float] = 5.0
    no_tools: ClassVar[Status] = Status("no_tools", "This model takes no tools: it answers without them")

    def __init__(
        self,
        settings: ProviderSettings,
        home: Path,
        *,
        key: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.key = (settings.api_key() if key is None else key).strip()
        self._extra = dict(extra or {})
        self._lacking: frozenset[str] = frozenset()

    def url(self) -> str:
        """Where a request goes."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """The wire's own headers, the key among them."""
        raise NotImplementedError

    def body(self, request: ModelRequest, lacking: frozenset[str]) -> dict[str, Any]:
        """The request as the wire has it, without the things that this provider is known to lack."""
        raise NotImplementedError

    def reader(self) -> Reader:
        """A new reader for one answer."""
        raise NotImplementedError

    def framer(self) -> Framer:
        """A new framer for one answer."""
        raise NotImplementedError

    def lacks(self, message: str, request: ModelRequest) -> str | None:
        """What a refusal's words say that the provider cannot take, as a name for `body`; None for others."""
        return None

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """One attempt; see timothy.providers.base."""
        names = WireNames(request)
        return names.events(terminated(self._attempt(names.request, cancel), cut=StreamCut))

    def parse(self, reads: Iterable[bytes]) -> Iterator[Event]:
        """The events of a body that was recorded, in the pieces in which it was read."""
        return terminated(fold(Recording(reads), self.reader(), self.framer()), cut=StreamCut)

    def close(self) -> None:
        """Nothing is held: every attempt has a connection of its own."""

    def _attempt(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        exchange = Exchange(self.settings, cancel)
        try:
            yield from self._open(exchange, request)
            yield from fold(exchange, self.reader(), self.framer())
        except Exception as error:
            if cancel.cancelled and not isinstance(error, Stopped):
                raise Stopped("stopped") from error  # whatever breaks after a cancel is the cancel
            raise
        finally:
            exchange.close()

    def _open(self, exchange: Exchange, request: ModelRequest) -> Iterator[Event]:
        """Send, and send again without what the provider says that it lacks."""
        lacking = self._lacking
        for _ in range(MAX_TRIES):
            told = noted(request) if PREFILL in lacking and request.continues else request
            body = {**self.body(told, lacking), **self._extra}
            exchange.send(self.url(), self._all_headers(request), msgspec.json.encode(body))
            if not exchange.answered(self.slow_start_s):
                yield self.slow_start
            try:
                exchange.begin()
                break
            except ProviderRefused as refusal:
                lack = None if isinstance(refusal, ContextOverflow) else self._lack(refusal.message, request)
                if lack is None or lack in lacking:
                    raise
                lacking = lacking | {lack}
                if lack == TOOLS:
                    self.settings = msgspec.structs.replace(self.settings, tools=False)
        self._lacking = lacking
        if TOOLS in lacking and request.tools:
            yield self.no_tools

    def _lack(self, message: str, request: ModelRequest) -> str | None:
        """What has to be done without, as the refusal's words say."""
        if request.tools and _TOOLS_REFUSED.search(message):
            return TOOLS
        return self.lacks(message, request)

    def _all_headers(self, request: ModelRequest) -> dict[str, str]:
        if not self.key.isascii() or not self.key.isprintable():
            raise AuthFailed(f"the key in {self.settings.api_key_env} has characters that no key can have")
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": f"timothy/{timothy.__version__}",
            **_password(self.settings.base_url),
            **self.headers(),
        }
        label = "".join(letter for letter in request.request_id if "!" <= letter <= "~")[:200]
        return {**headers, "X-Request-Id": label} if label else headers


def _password(base_url: str) -> dict[str, str]:
    """The header for a `http://user:password@host` address, as a reverse proxy wants it."""
    found = re.match(r"https?://([^/@:]+):?([^/@]*)@", base_url)
    if found is None:
        return {}
    return {"Authorization": "Basic " + b64encode(":".join(map(unquote, found.groups())).encode()).decode()}
