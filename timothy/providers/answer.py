"""What one answer has come to so far: the fold that all wires share."""

from collections.abc import Iterator
from typing import Any

from timothy.errors import EmptyOutput, ProviderFailed
from timothy.events import (
    Done,
    Event,
    Incomplete,
    IncompleteReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from timothy.providers.calls import Calls
from timothy.providers.honest import Mender
from timothy.providers.thinking import Part, Thinking

_LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
_FILTER = (
    "content_filter",
    "safety",
    "refusal",
    "sensitive",
    "recitation",
    "prohibited_content",
    "blocklist",
)
Delta = type[TextDelta] | type[ReasoningDelta]


class Answer:
    """Takes what a wire's reader finds in frames; gives events. Adjacent text is merged until `drain()`.

    `alive` is set by everything that counts as content for the silence timer, argument pieces too.
    """

    def __init__(self) -> None:
        self.alive = False
        self.content = False
        self.usage: Usage | None = None
        self._events: list[Event] = []
        self._kind: Delta = TextDelta
        self._pieces: list[str] = []
        self._menders: dict[Delta, Mender] = {TextDelta: Mender(), ReasoningDelta: Mender()}
        self._thinking = Thinking()
        self._calls = Calls()
        self._text = False
        self._called = False

    def text(self, piece: str) -> None:
        """A piece of the answer."""
        if self._kind is not TextDelta:
            self._seal(TextDelta)
        self._pieces.append(piece)
        self.alive = self.content = self._text = True

    def reasoning(self, piece: str) -> None:
        """A piece of the thinking."""
        if self._kind is not ReasoningDelta:
            self._seal(ReasoningDelta)
        self._pieces.append(piece)
        self.alive = self.content = True

    def tagged(self, piece: str) -> None:
        """A piece of an answer that may begin with `<think>`."""
        if self._thinking.over:
            self.text(piece)
        else:
            self.alive = True
            self._sort(self._thinking.feed(piece))

    def call(self, index: int | None, call_id: str | None, name: str | None, arguments: Any) -> None:
        """A piece of a tool call; see `Calls.piece`."""
        self.alive = self.content = self._called = True
        started = self._calls.piece(index, call_id, name, arguments)
        if started is not None:
            self.say(started)

    def say(self, event: Event) -> None:
        """Any other event, in order."""
        self._seal(self._kind)
        self._events.append(event)

    def count(self, given: int | None, made: int | None, cached: int | None = None) -> None:
        """Token counts: of several, the last that is not zero stands."""
        old = self.usage or Usage(None, None, None)
        self.usage = Usage(
            _latest(given, old.input_tokens),
            _latest(made, old.output_tokens),
            _latest(cached, old.cached_tokens),
        )

    def drain(self) -> list[Event]:
        """The events since the last time."""
        self._seal(self._kind)
        events, self._events = self._events, []
        return events

    def broken(self) -> list[Event]:
        """The last events of an answer that fails: what was held back, and the tokens it cost."""
        self._rest()
        return self.drain() + self._used()

    def finish(self, reason: str) -> Iterator[Event]:
        """The last events of an answer that ended by itself, terminal included.

        Raises EmptyOutput when there was no content, ProviderFailed when the reason is an error.
        """
        cut = _incomplete(reason)
        self._sort(self._thinking.finish(cut=cut is not None or self._text or self._called))
        calls = self._calls.finish(cut=cut is not None)
        self._rest()
        yield from self.drain()
        yield from calls
        yield from self._used()
        if reason in ("error", "unknown_error"):
            raise ProviderFailed(f"the provider ended the answer with the reason {reason!r}")
        if not self.content:
            raise EmptyOutput(f"the provider ended ({reason}) without text, reasoning or a tool call")
        if cut is not None:
            yield Incomplete(cut)
        yield Done(cut or ("tool_calls" if calls else "stop"))

    def _sort(self, parts: list[Part]) -> None:
        for kind, part in parts:
            if kind == "text":
                self.text(part)
            else:
                self.reasoning(part)

    def _seal(self, following: Delta) -> None:
        """Make one event of the pieces so far; `following` is what comes next."""
        if self._pieces:
            text = self._menders[self._kind].mend("".join(self._pieces))
            self._pieces.clear()
            if text:
                self._events.append(self._kind(text))
        self._kind = following

    def _rest(self) -> None:
        self._seal(self._kind)
        for kind, mender in self._menders.items():
            rest = mender.rest()
            if rest:
                self._events.append(kind(rest))

    def _used(self) -> list[Event]:
        return [] if self.usage is None else [self.usage]


def _latest(new: int | None, old: int | None) -> int | None:
    return new or (new if old is None else old)


def _incomplete(reason: str) -> IncompleteReason | None:
    folded = reason.lower()
    if folded in _LENGTH:
        return "length"
    return "content_filter" if folded in _FILTER else None
