"""What the drivers over HTTP share: one attempt, from the request to the terminal event."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast
from urllib.parse import unquote

import msgspec

import timothy
from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import (
    AuthFailed,
    ContextOverflow,
    MalformedStream,
    ProviderRefused,
    ProviderStalled,
    Stopped,
    StreamCut,
    TimothyError,
)
from timothy.events import Event, Status
from timothy.providers import ndjson
from timothy.providers.answer import Answer
from timothy.providers.failures import words
from timothy.providers.honest import lenient_json
from timothy.providers.names import WireNames
from timothy.providers.wire import Exchange, Source
from timothy.stream import terminated

MAX_TRIES = 4
BEGINNING = b"\xef\xbb\xbf \t\r\n"
Frame = TypeVar("Frame")


class Framer(Protocol):
    """Cuts bytes into frames; `whole` when all of the body is one, `strange` the first line that is none."""

    whole: bool
    strange: bytes

    def feed(self, data: bytes) -> list[bytes]: ...

    def finish(self) -> list[bytes]: ...


class Reader(Protocol):
    """One wire's frames, folded into `answer`. `reason` is why it ended, `ended` that nothing follows."""

    answer: Answer
    reason: str | None
    ended: bool
    progressed: bool

    def take(self, frame: bytes) -> None:
        """Fold one frame. Raises ProviderError for an error in it, MalformedStream when it is no frame."""
        ...


class HttpDriver:
    """A driver but for its wire: where to ask, what to send, how to read.

    `key` overrides the key that the settings name; `extra` is merged into every request's body.
    """

    slow_start: ClassVar[Status] = Status("waiting_for_provider", "The provider has not answered yet")
    slow_start_s: ClassVar[float] = 5.0

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
        return terminated(_fold(Recording(reads), self.reader(), self.framer()), cut=StreamCut)

    def close(self) -> None:
        """Nothing is held: every attempt has a connection of its own."""

    def _attempt(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        exchange = Exchange(self.settings, cancel)
        try:
            yield from self._open(exchange, request)
            yield from _fold(exchange, self.reader(), self.framer())
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
            body = {**self.body(request, lacking), **self._extra}
            exchange.send(self.url(), self._all_headers(request), msgspec.json.encode(body))
            if not exchange.answered(self.slow_start_s):
                yield self.slow_start
            try:
                exchange.begin()
                break
            except ProviderRefused as refusal:
                lack = None if isinstance(refusal, ContextOverflow) else self.lacks(refusal.message, request)
                if lack is None or lack in lacking:
                    raise
                lacking = lacking | {lack}
        self._lacking = lacking

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


class Recording:
    """A Source that was read before."""

    def __init__(self, reads: Iterable[bytes]) -> None:
        self._reads = iter(reads)

    def read(self) -> bytes:
        """The next piece that is not empty."""
        return next((data for data in self._reads if data), b"")

    def content(self) -> None:
        """No timer runs."""

    def progress(self) -> None:
        """No timer runs."""

    def finishing(self) -> None:
        """No timer runs."""


def decoded(frame: bytes, decoder: msgspec.json.Decoder[Frame]) -> Frame:
    """The frame as `decoder` types it; slower, but whole, when it holds half characters or loose types.

    Raises MalformedStream with the frame's own words.
    """
    try:
        return decoder.decode(frame)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        value = lenient_json(frame.decode("utf-8", "replace"))
        return cast(Frame, msgspec.convert(value, decoder.type, strict=False))
    except (ValueError, RecursionError) as error:
        raise MalformedStream(f"the provider sent what is not its wire's language: {words(frame)}") from error


def _fold(source: Source, reader: Reader, framer: Framer) -> Iterator[Event]:
    """The events of one answer, terminal included, but for failures, which are raised."""
    answer = reader.answer
    try:
        yield from _body(source, reader, framer)
    except TimothyError:
        yield from answer.broken()
        raise
    yield from answer.finish(reader.reason or "stop")


def _body(source: Source, reader: Reader, framer: Framer) -> Iterator[Event]:
    begun = False
    while not reader.ended:
        data = _next(source, reader)
        if not data:
            return _finish(reader, framer)
        if not begun and (start := data.lstrip(BEGINNING)):
            begun = True
            framer = _fitting(framer, start)
        _take(framer.feed(data), reader)
        _tell(source, reader)
        yield from reader.answer.drain()
    return None


def _next(source: Source, reader: Reader) -> bytes:
    """The next bytes; an answer that said why it ended may break off or fall silent."""
    try:
        return source.read()
    except (StreamCut, ProviderStalled):
        if reader.reason is None:
            raise
        return b""


def _take(frames: list[bytes], reader: Reader) -> None:
    for frame in frames:
        reader.take(frame)
        if reader.ended:
            return


def _tell(source: Source, reader: Reader) -> None:
    """Let the timers know what the last bytes held."""
    if reader.answer.alive:
        reader.answer.alive = False
        source.content()
    elif reader.progressed:
        source.progress()
    reader.progressed = False
    if reader.reason is not None:
        source.finishing()


def _finish(reader: Reader, framer: Framer) -> None:
    """Take the last, unfinished frame. Raises StreamCut when the answer did not say that it ended."""
    frames = framer.finish()
    try:
        _take(frames, reader)
    except MalformedStream:
        if framer.whole or frames[-1][:1] not in b"{[":
            raise
        if reader.reason is None:
            raise StreamCut("the provider closed the stream in the middle of a frame") from None
    if reader.reason is None and not reader.ended:
        if framer.strange and not reader.answer.content:
            raise MalformedStream(f"the provider sent no stream: {words(framer.strange)}")
        raise StreamCut("the provider closed the stream without saying that the answer is complete")


def _fitting(framer: Framer, start: bytes) -> Framer:
    """Some servers answer a request for a stream with one JSON value, some proxies with a page."""
    alone = b"<" if isinstance(framer, ndjson.Framer) else b"{[<"
    return ndjson.Whole() if start[:1] in alone else framer
