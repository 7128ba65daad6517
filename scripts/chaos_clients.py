"""The clients of a chaos run: impatient, doubled, cut off, deaf; and the history of what they were told."""

import dataclasses
import json
import random
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from chaos_world import CEILING_S, ENTRIES, PERMISSION_S, SILENCE_S, TOKEN

from timothy.client import Client, TurnStream, errors, events
from timothy.client.api import Answer

REFUSALS = (
    errors.AlreadyResolved,
    errors.NoActiveTurn,
    errors.NoRetryableTurn,
    errors.ServerUnreachable,
    errors.ShuttingDown,
    errors.StorageUnavailable,
    errors.TurnInFlight,
    errors.TurnMismatch,
)
USUAL = ("fickle", "steady", "slow", "thinks", "tool")
ENDED_S = 60.0
PATIENCE = {"permission": PERMISSION_S, "turn_timeout": CEILING_S, "provider_stalled": SILENCE_S}
LONGEST_S = 2 * CEILING_S


@dataclasses.dataclass
class View:
    """What one viewer saw of one turn. `marks` are (time, characters shown by then), `parks` are
    (decision, seconds that its permission was seen open)."""

    session_id: str
    turn_id: str
    text: str = ""
    marks: list[tuple[float, int]] = dataclasses.field(default_factory=list)
    terminals: list[str] = dataclasses.field(default_factory=list)
    tools: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    parks: list[tuple[str, float]] = dataclasses.field(default_factory=list)


class History:
    """What the clients were told, from all threads; `enough` at `turns` turns, or at the deadline."""

    def __init__(self, turns: int) -> None:
        self.deadline = float("inf")
        self.sends: list[dict[str, Any]] = []
        self.views: list[View] = []
        self.probes: list[dict[str, Any]] = []
        self.refusals: Counter[str] = Counter()
        self.surprises: list[str] = []
        self._turn_ids: set[str] = set()
        self._turns = turns
        self._lock = threading.Lock()

    @property
    def enough(self) -> bool:
        return len(self._turn_ids) >= self._turns or time.monotonic() > self.deadline

    @property
    def turns(self) -> int:
        """How many turns were acknowledged."""
        return len(self._turn_ids)

    def acknowledged(self, session_id: str, turn_id: str, key: str, message: str | None) -> None:
        with self._lock:
            self._turn_ids.add(turn_id)
            sent = {"session_id": session_id, "turn_id": turn_id, "key": key, "message": message}
            self.sends.append(sent)

    def viewed(self, view: View) -> None:
        with self._lock:
            self.views.append(view)

    def probed(self, session_id: str, outcome: str | None, turn_active: bool) -> None:
        self.probes.append({"session_id": session_id, "outcome": outcome, "turn_active": turn_active})

    def refused(self, error: errors.TimothyError) -> None:
        with self._lock:
            self.refusals[error.code] += 1

    def surprised(self, what: str) -> None:
        with self._lock:
            self.surprises.append(what)

    def save(self, path: Path, **faults: Any) -> None:
        """As scripts/check_log.py reads it; `faults` are the kills, the full disks, the clock's jumps."""
        views = [dataclasses.asdict(view) for view in self.views]
        told = {"sends": self.sends, "views": views, "probes": self.probes}
        limits = {"patience": PATIENCE, "longest_s": LONGEST_S, "ended": time.time()}
        path.write_text(json.dumps({**told, **limits, **faults}), encoding="utf-8")


class Visitor(threading.Thread):
    """One client after another: each picks a session, a model and a way to behave, as its seed has it."""

    _numbers = count(1)

    def __init__(
        self, url: str, seed: int, sessions: list[str], history: History, tools: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self._client = Client(url, TOKEN, silence=10, first_delay=0.15)
        self._random = random.Random(seed)
        self._sessions = sessions
        self._history = history
        self._ways: dict[Callable[[str], None], int] = {
            self.read_to_the_end: 24,
            self.send_twice_at_once: 14,
            self.leave_and_come_back: 16,
            self.stop_in_the_middle: 10,
            self.stop_at_once: 6,
            self.look_in_later: 8,
            self.never_read: 3,
            self.send_again_later: 8,
            self.try_again: 8,
            self.answer_late: 25 if tools else 8,
        }

    def run(self) -> None:
        while not self._history.enough:
            way = self._random.choices(list(self._ways), list(self._ways.values()))[0]
            session_id = self._random.choice(self._sessions)
            try:
                way(session_id)
            except errors.TurnInFlight as busy:
                self._history.refused(busy)
                self._guarded(lambda: self.stand_by(session_id))  # noqa: B023  called at once
            except REFUSALS as error:
                self._history.refused(error)
                time.sleep(0.05)
            except Exception:  # noqa: BLE001  whatever else a client meets is a finding
                self._history.surprised(f"{way.__name__}: {traceback.format_exc()}")

    def read_to_the_end(self, session_id: str) -> None:
        self._look(self._send(session_id))

    def send_twice_at_once(self, session_id: str) -> None:
        key, message, model = _new_key(), self._message(), self._model()

        def send() -> None:
            self._look(self._send(session_id, key, message, model))

        other = threading.Thread(target=self._guarded, args=(send,), daemon=True)
        other.start()
        self._guarded(send)
        other.join()

    def leave_and_come_back(self, session_id: str) -> None:
        with self._send(session_id) as turn:
            self._look(turn, limit=self._random.randint(0, 12))
        for _ in range(self._random.randint(1, 3)):
            time.sleep(self._random.random() * 0.3)
            with self._client.watch(session_id, after=turn.cursor or None) as again:
                self._look(again, limit=self._random.choice([3, 10, 1000]), live=False)

    def stop_in_the_middle(self, session_id: str) -> None:
        turn = self._send(session_id)
        time.sleep(self._random.random() * 0.5)
        self._guarded(lambda: self._client.stop(session_id, turn.turn_id))
        self._look(turn)

    def stop_at_once(self, session_id: str) -> None:
        key, message = _new_key(), self._message()
        accepted = self._client.submit(session_id, message, self._model(), key)
        self._history.acknowledged(session_id, accepted.turn_id, key, message)
        self._client.stop(session_id, accepted.turn_id)

    def look_in_later(self, session_id: str) -> None:
        key, message = _new_key(), self._message()
        accepted = self._client.submit(session_id, message, self._model(), key)
        self._history.acknowledged(session_id, accepted.turn_id, key, message)
        deadline = time.monotonic() + ENDED_S
        while self._client.turn(session_id, accepted.turn_id).outcome is None:
            if time.monotonic() > deadline:
                return self._history.surprised(f"turn {accepted.turn_id} runs for {ENDED_S} s")
            time.sleep(0.1)
        return None

    def never_read(self, session_id: str) -> None:
        with self._send(session_id, model=ENTRIES["flood"]):
            time.sleep(self._random.random() * 3)

    def send_again_later(self, session_id: str) -> None:
        key, message, model = _new_key(), self._message(), self._model()
        self._look(self._send(session_id, key, message, model))
        self._look(self._send(session_id, key, message, model))

    def try_again(self, session_id: str) -> None:
        key = _new_key()
        turn = self._client.retry(session_id, self._random.choice(["again", "continue"]), key)
        self._history.acknowledged(session_id, turn.turn_id, key, None)
        self._look(turn)

    def answer_late(self, session_id: str) -> None:
        self._look(self._send(session_id, model=ENTRIES["writes"]), answers=True)

    def stand_by(self, session_id: str) -> None:
        """Watch the turn of another client, from its start or from somewhere."""
        after = self._random.choice([None, None, 1, 5, 10_000])
        with self._client.watch(session_id, after=after) as turn:
            self._look(turn, live=False)

    def _send(
        self, session_id: str, key: str | None = None, message: str | None = None, model: str | None = None
    ) -> TurnStream:
        key, message = key or _new_key(), message or self._message()
        turn = self._client.send(session_id, message, model or self._model(), key)
        self._history.acknowledged(session_id, turn.turn_id, key, message)
        return turn

    def _look(
        self, turn: TurnStream, limit: int = 1_000_000, answers: bool = False, live: bool = True
    ) -> None:
        """Note what the turn shows, up to so many events; `live`: as it happens, nothing is repeated."""
        live = live and not turn.replayed
        sight = Sight(turn.session_id, turn.turn_id, whole=not turn.cursor, live=live)
        try:
            for number, event in enumerate(turn):
                sight.take(event, turn)
                if answers and isinstance(event, events.PermissionRequest):
                    self._answer(event.id)
                if number >= limit:
                    return
        finally:
            turn.close()
            for view in sight.views:
                self._history.viewed(view)

    def _answer(self, permission_id: str) -> None:
        time.sleep(self._random.choice([0, 0.2, 2.9, 3.5]))
        decision: Answer = self._random.choice(["once", "once", "once", "deny", "deny", "session"])
        self._guarded(lambda: self._client.answer(permission_id, decision))

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except REFUSALS as error:
            self._history.refused(error)
        except Exception:  # noqa: BLE001  whatever else a client meets is a finding
            self._history.surprised(traceback.format_exc())

    def _message(self) -> str:
        return f"message {next(self._numbers)}"

    def _model(self) -> str:
        names = USUAL if self._random.random() < 0.7 else tuple(ENTRIES)
        return ENTRIES[self._random.choice(names)]


class Sight:
    """Turns events into views: a new one at every `turn_started`, none for text that came after a cursor."""

    def __init__(self, session_id: str, turn_id: str, whole: bool, live: bool) -> None:
        self.views: list[View] = []
        self._session_id = session_id
        self._turn_id = turn_id
        self._whole = whole
        self._live = live
        self._asked: dict[str, float] = {}

    def take(self, event: object, turn: TurnStream) -> None:
        if isinstance(event, events.TurnStarted) or not self.views:
            self._turn_id = turn.turn_id
            self._whole = self._whole or isinstance(event, events.TurnStarted)
            self.views.append(View(self._session_id, self._turn_id))
        view = self.views[-1]
        match event:
            case events.TextDelta(text) if self._whole:
                view.text += text
                view.marks.append((time.time(), len(view.text)))
            case events.Done():
                view.terminals.append("done")
            case events.Error(code=code):
                view.terminals.append(code)
            case events.ToolResult(call_id=call_id, status=status):
                view.tools.append((call_id, status))
            case events.PermissionRequest(id=permission_id) if self._live:
                self._asked[permission_id] = time.monotonic()
            case events.PermissionResolved(id=permission_id, decision=decision):
                if permission_id in self._asked:
                    view.parks.append((decision, time.monotonic() - self._asked[permission_id]))


def _new_key() -> str:
    return str(uuid.uuid4())
