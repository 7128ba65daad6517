"""Naming a session after its first answer: after-work with the claim free, cancelled by the next send."""

import logging
import uuid
from dataclasses import dataclass, field

from actors.base import BaseActor, Target, deliver
from actors.claims import Claim
from actors.messages import Run, Write
from timothy.cancel import Cancel
from timothy.config import Titles
from timothy.conversation import ModelRequest
from timothy.eventlog.records import AppendRows, UpdateSession
from timothy.events import AttemptEnded, Error, TextDelta
from timothy.gateway.base import Gateway
from timothy.turn import title

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Naming:
    """How sessions get their names, and which are being named by a model now."""

    settings: Titles
    gateway: Gateway
    persistence: Target
    running: dict[str, Cancel] = field(default_factory=dict)

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
            cancel = self.running[claim.replay.session_id] = Cancel()
            TitleWorker.start(self, asked, question, cancel)

    def cancel(self, session_id: str) -> None:
        """The session has better to do: its first words must serve."""
        cancel = self.running.pop(session_id, None)
        if cancel is not None:
            cancel.cancel()

    def close(self) -> None:
        """The server stops."""
        for session_id in list(self.running):
            self.cancel(session_id)

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
        if self._naming.running.get(self._request.session_id) is self._cancel:
            del self._naming.running[self._request.session_id]
        words = "" if self._cancel.cancelled else self._words
        self._naming.name(self._request.session_id, words or title.first_words(self._question))

    def _ask(self) -> str:
        text: list[str] = []
        for event in self._naming.gateway.stream(self._request, self._cancel):
            match event:
                case TextDelta(text=piece):
                    text.append(piece)
                case AttemptEnded():
                    self._book(event)
                case Error(code=code, message=message):
                    logger.warning("no title for session %s: %s: %s", self._request.session_id, code, message)
                    return ""
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
