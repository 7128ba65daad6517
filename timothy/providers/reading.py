"""One answer read: bytes into frames, frames into events, with a name for every way to break off."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar, cast

import msgspec

from timothy.errors import MalformedStream, ProviderStalled, StreamCut, TimothyError
from timothy.events import Event
from timothy.providers import ndjson
from timothy.providers.answer import Answer
from timothy.providers.failures import words
from timothy.providers.honest import lenient_json
from timothy.providers.wire import Source

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


def fold(source: Source, reader: Reader, framer: Framer) -> Iterator[Event]:
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
