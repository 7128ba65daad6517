"""A turn as its viewer sees it: typed events, each once, up to one terminal, whatever the line does."""

import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Self

import msgspec
import requests
import sseclient

from timothy.client.http import LOST, TRIES, Server
from timothy.client.shapes import Page, Turn
from timothy.errors import NoActiveTurn, ServerUnreachable
from timothy.events import (
    AnyEvent,
    Done,
    Error,
    Event,
    Incomplete,
    IncompleteReason,
    Meta,
    ReasoningDelta,
    TextDelta,
    TurnStarted,
    decode,
)

_EVIDENCE = ("assistant", "partial", "failure")


class Frame(msgspec.Struct, frozen=True):
    """What every frame carries besides its event."""

    seq: int
    turn_id: str


class TurnStream:
    """The events of one turn, to be iterated once; `text`, `reasoning`, `terminal` and `meta` grow with it.

    A line that breaks is taken up again from the last event seen: five tries in a row without one, with
    growing pauses, then ServerUnreachable. If the turn has ended meanwhile, the iteration goes on with what
    was missed: the rest of the text, the terminal event and `meta`, all from the log. A TurnStarted means:
    start this turn's view anew. Leaving early never stops the turn; `close()` gives the connection back.
    """

    def __init__(self, server: Server, session_id: str, response: requests.Response, after: str = "") -> None:
        self.session_id = session_id
        self.turn_id = response.headers.get("X-Turn-Id", "")
        self.replayed = response.headers.get("Idempotent-Replayed") == "true"
        self.text = ""
        self.reasoning = ""
        self.incomplete: IncompleteReason | None = None
        self.terminal: Done | Error | None = None
        self.meta: Meta | None = None
        self._after = after
        self._seq: int | None = None
        self._failures = 0
        self._over = False
        self._server = server
        self._response = response
        self._events = self._run()

    @property
    def cursor(self) -> str:
        """Where another viewer can go on: `TURN_ID:SEQ` of the last event seen, at first where this began."""
        return f"{self.turn_id}:{self._seq}" if self._seq is not None else self._after

    @property
    def outcome(self) -> str | None:
        """How the turn ended (`completed`, `incomplete`, `failed`, `stopped`, `interrupted`), None before."""
        return self.meta.outcome if self.meta else None

    def __iter__(self) -> Iterator[AnyEvent]:
        return self._events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def wait(self) -> Meta:
        """Read to the end, and what the turn came to. Raises ServerUnreachable."""
        for _ in self:
            pass
        if self.meta is None:
            raise ServerUnreachable(f"the stream of turn {self.turn_id} was closed before its end")
        return self.meta

    def close(self) -> None:
        """Stop watching. The turn goes on."""
        self._events.close()
        self._response.close()

    def _run(self) -> Generator[AnyEvent, None, None]:
        source: Iterable[AnyEvent] = self._read()
        while True:
            for event in source:
                self._take(event)
                yield event
            if self.meta is not None:
                return
            source = self._resume()

    def _read(self) -> Iterator[AnyEvent]:
        """The new events of the open connection, until it ends, in whatever way."""
        try:
            for data in _lines(self._response):
                frame = msgspec.json.decode(data, type=Frame)
                if not self._expected(frame):
                    return
                if self._seq is None or frame.seq > self._seq or frame.seq == 1:
                    yield from self._known(frame, data)
        except (*LOST, msgspec.DecodeError):
            return  # any way for a line to end means the same: attach again
        finally:
            self._response.close()

    def _expected(self, frame: Frame) -> bool:
        """False when the frame is another turn's (this one is over) or leaves a gap (the line lost some)."""
        self.turn_id = self.turn_id or frame.turn_id
        self._over = frame.turn_id != self.turn_id
        return not self._over and (self._seq is None or frame.seq <= self._seq + 1)

    def _known(self, frame: Frame, data: str) -> Iterator[AnyEvent]:
        self._seq = frame.seq
        self._failures = 0
        try:
            event = decode(data)
        except msgspec.ValidationError:
            return  # a newer server's event: it has its place in the order, but no meaning here
        yield event

    def _take(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self.text = self.reasoning = ""
                self.incomplete = self.terminal = None
            case TextDelta(text):
                self.text += text
            case ReasoningDelta(text):
                self.reasoning += text
            case Incomplete(reason):
                self.incomplete = reason
            case Done() | Error():
                self.terminal = event
            case Meta():
                self.meta = event

    def _resume(self) -> Iterable[AnyEvent]:
        """What follows the last event seen: from a new connection, or from the log once the turn is over."""
        lost = "the line gave no event"
        while self._failures < TRIES:
            time.sleep(self._server.first_delay * 2**self._failures)
            self._failures += 1
            try:
                return self._attach()
            except ServerUnreachable as error:
                lost = error.message
        raise ServerUnreachable(f"{TRIES} tries to go on with turn {self.turn_id} failed: {lost}")

    def _attach(self) -> Iterable[AnyEvent]:
        if self._over:
            return self._ending()
        query = {"after": self.cursor} if self.cursor else None
        try:
            self._response = self._server.stream("GET", f"/v1/sessions/{self.session_id}/live", query=query)
        except NoActiveTurn:
            return self._ending()
        return self._read()

    def _ending(self) -> Iterable[AnyEvent]:
        """The end of a turn that nobody streams any more, as the log tells it."""
        path = f"/v1/sessions/{self.session_id}"
        turn = self._server.call("GET", f"{path}/turns/{self.turn_id}", Turn)
        if turn.outcome is None:
            raise ServerUnreachable(f"turn {turn.id} runs, but has no stream")
        page = self._server.call("GET", path, Page)
        items = (item for item in page.items if item["turn_id"] == turn.id and item["kind"] in _EVIDENCE)
        return _rest(turn, next(items, {}), self.text, page.session.title)


def _lines(response: requests.Response) -> Iterator[str]:
    """The data of every complete event, as it arrives."""
    return (event.data for event in sseclient.SSEClient(_whole_events(response)).events())


def _whole_events(response: requests.Response) -> Iterator[bytes]:
    """The bytes up to the last blank line: sseclient would take an event that was cut short for a whole one.

    From `read1`, which gives what is there; iterating the response waits for its next 128 bytes.
    """
    rest = b""
    while chunk := response.raw.read1(65536):
        whole, blank, rest = (rest + chunk).rpartition(b"\n\n")
        yield whole + blank


def _rest(turn: Turn, evidence: dict[str, Any], shown: str, title: str | None) -> list[AnyEvent]:
    """The events between `shown` and the end of `turn`."""
    missed: list[AnyEvent] = []
    text = evidence.get("text", "")
    if text.startswith(shown) and text != shown:
        missed.append(TextDelta(text[len(shown) :]))
    if turn.outcome in ("completed", "incomplete"):
        if evidence.get("incomplete"):
            missed.append(Incomplete(evidence["incomplete"]))
        missed.append(Done(evidence.get("finish_reason") or "stop"))
    else:
        retryable = evidence.get("retryable", True)
        missed.append(Error(turn.code or "turn_aborted", turn.message or "", retryable))
    outcome = turn.outcome or ""
    duration = evidence.get("duration_ms")
    missed.append(
        Meta(turn.session_id, outcome, turn.provider, turn.model, turn.usage, turn.cost, duration, title)
    )
    return missed
