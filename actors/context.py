"""What a model is told of its session: read from the log, summed up when it has grown too long."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.claims import Claim
from actors.messages import Compacted, ContextRead
from timothy.cancel import Cancel
from timothy.conversation import Message, ModelRequest
from timothy.errors import TimothyError
from timothy.eventlog import attachments, queries
from timothy.eventlog.context import context
from timothy.eventlog.records import Record
from timothy.events import AttemptEnded, AttemptStarted, Error, Event, Status, TextDelta, Usage
from timothy.gateway.base import Gateway
from timothy.moment import stamp
from timothy.turn import compaction

Show = Callable[[Event], None]
Tell = Callable[[Any], object]
Known = tuple[list[Record], frozenset[tuple[str, str]], frozenset[str]]
WINDOW = 4096


class ContextReader:
    """Reads in the time of a stream worker, which may block; shows what it does as the turn's events."""

    def __init__(self, read: Callable[..., Any], gateway: Gateway, home: Path) -> None:
        self._read = read
        self._home = home
        self._gateway = gateway

    def read(self, claim: Claim, cancel: Cancel, show: Show, tell: Tell) -> ContextRead:
        """The context for the claim's turn, compacted first if it would not fit the model's window."""
        records, grants, tools_off = self._known(claim)
        messages = self._messages(records, claim)
        window = self._window(claim.send.order.model)
        if window is not None and compaction.overfull(messages, window):
            records = self._compact(records, claim, window, cancel, show, tell)
            messages = self._messages(records, claim)
        return ContextRead(tuple(messages), grants, tools_off)

    def after_overflow(
        self, claim: Claim, window: int | None, cancel: Cancel, show: Show, tell: Tell
    ) -> ContextRead | None:
        """A shorter context after the provider found the prompt too long; None when it cannot be shorter."""
        before, grants, tools_off = self._known(claim)
        records = self._compact(before, claim, window or WINDOW, cancel, show, tell)
        if records is before:
            return None
        return ContextRead(tuple(self._messages(records, claim)), grants, tools_off)

    def _known(self, claim: Claim) -> Known:
        """All that the log knows of the session, by one visit to the reading thread."""
        known: Known = self._read(_known, claim.replay.session_id, self._home)
        return known

    def _messages(self, records: list[Record], claim: Claim) -> list[Message]:
        mode = claim.send.order.mode
        goes_on = self._read(queries.continuations, claim.replay.session_id) if mode == "continue" else ()
        return context(records, claim.user_seq, mode, goes_on)

    def _window(self, model: str | None) -> int | None:
        """The window of the model that is asked first, where it is known."""
        try:
            rows = self._gateway.models()
        except TimothyError:  # a separate gateway that is not there: the turn's own request will say so
            return None
        chosen = [row for row in rows if model in (row.id, f"{row.provider}/{row.id}")] or rows
        return chosen[0].context_window if chosen else None

    def _compact(
        self, records: list[Record], claim: Claim, window: int, cancel: Cancel, show: Show, tell: Tell
    ) -> list[Record]:
        chosen = compaction.plan(records, claim.user_seq)
        if chosen is None:
            return records
        show(Status("compacting", "summing up the older half of this conversation for the model"))
        summary = self._ask(compaction.prompt(chosen.older, window), claim, cancel, show)
        if not summary:
            return records
        payload = compaction.applied(chosen, summary)
        tell(Compacted(payload))
        row = Record(claim.replay.session_id, chosen.upto_seq, None, "compaction_applied", payload, stamp())
        return [*(record for record in records if record.seq > chosen.upto_seq), row]

    def _ask(self, prompt: str, claim: Claim, cancel: Cancel, show: Show) -> str:
        """The model's summary, or "" when it failed: then the turn goes on with the whole history."""
        order = claim.send.order
        request = ModelRequest(
            messages=(Message("user", prompt),),
            system="You are a helpful assistant.",
            model=order.model,
            session_id=order.session_id,
            turn_id=order.turn_id,
            request_id=order.request_id or "",
        )
        text: list[str] = []
        for event in self._gateway.stream(request, cancel):
            match event:
                case TextDelta(text=piece):
                    text.append(piece)
                case AttemptStarted() | AttemptEnded() | Usage():
                    show(event)
                case Error(code=code, message=message):
                    show(Status("compacting_failed", f"{code}: {message}"))
                    return ""
        return "".join(text).strip()


def _known(database: Any, session_id: str, home: Path) -> Known:
    """The session's records with what is attached, what was granted in it, the tools switched off in it."""
    grants = frozenset((grant["tool"], grant["subject"]) for grant in queries.grants(database, session_id))
    session = queries.session(database, session_id)
    tools_off = frozenset(session["tools_off"]) if session else frozenset()
    records = [attachments.filled(home, record) for record in queries.context_records(database, session_id)]
    return records, grants, tools_off
