"""Naming a session after its first answer: after-work with the claim free, cancelled by the next send."""

import logging
import time
import uuid
from dataclasses import dataclass, field

from actors.base import BaseActor, Target, deliver
from actors.claims import Claim
from actors.messages import Run, Write
from timothy.cancel import Cancel
from timothy.config import Titles
from timothy.conversation import ModelRequest
from timothy.eventlog.records import AppendRows, UpdateSession
from timothy.events import AttemptEnded, Error, ReasoningDelta, TextDelta
from timothy.gateway.base import Gateway
from timothy.turn import title

logger = logging.getLogger(__name__)

MOST = 100_000  # characters of a model's thoughts and words
PATIENCE_S = 300.0


@dataclass(slots=True)
class Naming:
    """How sessions get their names; `running` are those that a model is naming now, by session id."""

    settings: Titles
    gateway: Gateway
    persistence: Target
    running: set[tuple[str, Cancel]] = field(default_factory=set)

    def begin(self, claim: Claim) -> None:
        """Name the untitled session of the turn that just ended. Waits for nothing."""
        assert claim.finished is not None
        question, asked = claim.send.text, None
        if self.settings.by == "model":
            label = claim.send.order.request_id or ""
            asked = title.request(question, claim.finished.order, label, self.settings.model or None)
        if asked is None:
            self.name(claim.replay.session_id, title.first_words(question))
        else:
            cancel = Cancel()
            self.running.add((claim.replay.session_id, cancel))
            TitleWorker.start(self, asked, question, cancel)

    def cancel(self, session_id: str) -> None:
        """The session has better to do: its first words must serve."""
        for named, cancel in list(self.running):
            if named == session_id:
                cancel.cancel()

    def close(self) -> None:
        """The server stops: what is `running` still tells the writer a name, and what its request cost."""
        for _, cancel in list(self.running):
            cancel.cancel()

    def name(self, session_id: str, words: str) -> None:
        """Durable soon, unless a person was faster."""
        if words:
            append_id = str(uuid.uuid4())
            order = UpdateSession(append_id=append_id, session_id=session_id, title=words, only_untitled=True)
            deliver(self.persistence, Write(order))


class TitleWorker(BaseActor):
    """A leaf that may block: one request to the model, whose attempts are booked on the turn it follows."""

    def __init__(self, naming: Naming, request: ModelRequest, question: str, cancel: Cancel) -> None:
        super().__init__()
        self._naming = naming
        self._request = request
        self._question = question
        self._cancel = cancel
        self._words = ""

    def on_start(self) -> None:
        self.actor_ref.tell(Run())

    def on_receive(self, message: Run) -> None:
        self._words = title.cleaned(self._ask())
        self.stop()

    def cleaned_up(self, cause: str | None) -> None:
        """Whatever happened, the session gets a name."""
        if cause is not None:
            logger.error("the title of session %s could not be made: %s", self._request.session_id, cause)
        words = "" if self._cancel.cancelled else self._words
        self._naming.name(self._request.session_id, words or title.first_words(self._question))
        self._naming.running.discard((self._request.session_id, self._cancel))

    def _ask(self) -> str:
        """The model's words, or "" when it failed; one that comes to no end is cancelled."""
        session_id, text = self._request.session_id, list[str]()
        characters, until = 0, time.monotonic() + PATIENCE_S
        for event in self._naming.gateway.stream(self._request, self._cancel):
            match event:
                case TextDelta(text=piece):
                    text.append(piece)
                    characters += len(piece)
                case ReasoningDelta(text=piece):
                    characters += len(piece)
                case AttemptEnded():
                    self._book(event)
                case Error(code=code, message=message):
                    if not self._cancel.cancelled:
                        logger.warning("no title for session %s: %s: %s", session_id, code, message)
                    return ""
            if not self._cancel.cancelled and (characters > MOST or time.monotonic() > until):
                logger.warning("no title for session %s: the model comes to no end", session_id)
                self._cancel.cancel()
        return "".join(text)

    def _book(self, attempt: AttemptEnded) -> None:
        order = AppendRows(
            append_id=str(uuid.uuid4()),
            session_id=self._request.session_id,
            turn_id=self._request.turn_id,
            rows=(),
            attempt=attempt,
        )
        deliver(self._naming.persistence, Write(order))
