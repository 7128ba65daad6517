"""The gateway behind HTTP: a separate `timothy gateway`, named by GATEWAY_URL.

It speaks our own vocabulary: every event is one line of JSON in one server-sent event, comments are
heartbeats. What breaks on the way is told by the brain's own names.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import requests

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import (
    AuthFailed,
    GatewayError,
    GatewayStreamCut,
    MalformedStream,
    ProviderError,
    ProviderStalled,
    ProviderTimeout,
    ProviderUnreachable,
    ServerShutdown,
    StreamCut,
    TimothyError,
)
from timothy.events import AttemptEnded, AttemptStarted, Done, Error, Event, TextDelta, decode
from timothy.gateway.base import ModelRow, ProviderRow
from timothy.gateway.clock import Clock
from timothy.gateway.tally import Tally, status_of
from timothy.providers.dial import LOOPBACK
from timothy.providers.sse import Framer
from timothy.providers.wire import Exchange
from timothy.stream import failure, terminated

CONNECT_S = 10.0
HEADERS_S = 30.0
SILENCE_S = 90.0  # four heartbeats and some: nobody is there any more
Rows = TypeVar("Rows")


class _Models(msgspec.Struct):
    models: list[ModelRow]


class _Providers(msgspec.Struct):
    providers: list[ProviderRow]


class RemoteGateway:
    """A gateway in another process; see timothy.gateway.base."""

    def __init__(self, url: str, token: str, headers_s: float = HEADERS_S, silence_s: float = SILENCE_S):
        self._url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._settings = ProviderSettings(
            name="gateway",
            driver="openai",  # only the times matter here
            connect_timeout_s=CONNECT_S,
            first_content_timeout_s=headers_s,
            idle_timeout_s=silence_s,
        )

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """The gateway's events. An attempt that is open when they break off gets its last facts from here."""
        return terminated(self._events(request, cancel), cut=GatewayStreamCut)

    def models(self) -> list[ModelRow]:
        """What the gateway's chain offers. Raises ProviderUnreachable, AuthFailed, GatewayError."""
        return self._get("/v1/models", _Models).models

    def providers(self) -> list[ProviderRow]:
        """The gateway's entries. Raises ProviderUnreachable, AuthFailed, GatewayError."""
        return self._get("/v1/providers", _Providers).providers

    def close(self) -> None:
        """Nothing is held: every stream has a connection of its own."""

    def _events(self, request: ModelRequest, cancel: Cancel) -> Generator[Event]:
        exchange = Exchange(self._settings, cancel)
        attempt: Tally | None = None
        try:
            for event in self._received(exchange, request):
                if type(event) is not TextDelta or attempt is None or not attempt.shown:
                    attempt = _follow(attempt, event)  # text after the first piece has nothing to tell it
                yield self._named(event) if isinstance(event, Error) else event
                if isinstance(event, Done | Error):
                    return
            error: TimothyError = GatewayStreamCut(f"the gateway at {self._url} ended without saying so")
        except TimothyError as broken:
            error = broken
        finally:
            exchange.close()
        if attempt is not None:
            yield attempt.ended(status_of(error.code), error.code, cost=None)
        yield failure(error)

    def _named(self, error: Error) -> Error:
        """A gateway that shuts down is a failure of the hop: it is not this server that goes."""
        if error.code != ServerShutdown.code:
            return error
        return failure(GatewayStreamCut(f"the gateway at {self._url} broke off: {error.message}"))

    def _received(self, exchange: Exchange, request: ModelRequest) -> Generator[Event]:
        self._dial(exchange, request)
        framer = Framer()
        try:
            while data := exchange.read():
                exchange.content()  # a heartbeat counts: a silent provider is for the gateway to judge
                for frame in framer.feed(data):
                    yield decode(frame)
        except (ProviderStalled, StreamCut) as error:
            raise GatewayStreamCut(f"the gateway at {self._url} broke off: {error.message}") from error
        except msgspec.MsgspecError as error:
            raise MalformedStream(f"the gateway at {self._url} said what is no event: {error}") from error

    def _dial(self, exchange: Exchange, request: ModelRequest) -> None:
        """Send the request and read the headers. Raises a ProviderError whose words name the gateway."""
        headers = {**self._headers, "Content-Type": "application/json", "Accept": "text/event-stream"}
        limit = self._settings.first_content_s
        if request.request_id:
            headers["X-Request-Id"] = request.request_id
        try:
            exchange.send(f"{self._url}/v1/stream", headers, msgspec.json.encode(request))
            if not exchange.answered(limit):
                raise ProviderStalled("no answer")
            exchange.begin()
        except ProviderStalled as error:
            raise ProviderTimeout(f"the gateway at {self._url} sent no headers in {limit:g} s") from error
        except StreamCut as error:
            raise GatewayStreamCut(f"the gateway at {self._url}: {error.message}") from error
        except ProviderError as error:
            raise type(error)(f"the gateway at {self._url}: {error.message}", **error.details) from error

    def _get(self, path: str, kind: type[Rows]) -> Rows:
        with requests.Session() as session:
            session.trust_env = urlsplit(self._url).hostname not in LOOPBACK  # no proxy to this machine
            try:
                times = (CONNECT_S, self._settings.first_content_s)
                response = session.get(self._url + path, headers=self._headers, timeout=times)
            except requests.RequestException as error:
                raise ProviderUnreachable(f"the gateway at {self._url} is not reachable: {error}") from error
        if response.status_code == 401:
            raise AuthFailed(f"the gateway at {self._url} refuses the token (TIMOTHY_GATEWAY_TOKEN)")
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.MsgspecError as error:
            status = response.status_code
            raise GatewayError(f"the gateway at {self._url} answered HTTP {status}, {error}") from error


def _follow(attempt: Tally | None, event: Event) -> Tally | None:
    """The attempt that is open after `event`."""
    if isinstance(event, AttemptStarted):
        return Tally(event, Clock())
    if isinstance(event, AttemptEnded):
        return None
    if attempt is not None:
        attempt.note(event)
    return attempt
