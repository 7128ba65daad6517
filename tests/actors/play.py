"""What stands around an actor in a test: a probe that hears, a gateway that plays, a system in a home."""

import threading
import time
import uuid
from collections.abc import Callable

import pykka
from pykka import messages

from actors.base import Answer
from actors.messages import Accepted, Send, Stop
from actors.system import System
from timothy.config import load
from timothy.errors import Stopped
from timothy.eventlog import queries
from timothy.eventlog.records import BeginTurn, CreateSession
from timothy.events import AttemptEnded, AttemptStarted, Done, Error, TextDelta, ToolCall, ToolCallStarted
from timothy.moment import stamp
from timothy.schema import EVIDENCE_KINDS
from timothy.stream import TERMINAL, failure

SOON_S = 15.0


def eventually(found: Callable[[], object], seconds: float = SOON_S):
    """What `found` gives as soon as it is true. Raises AssertionError when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)
    return value


class Probe:
    """A target that keeps what it is told."""

    def __init__(self):
        self.messages = []

    def tell(self, message):
        self.messages.append(message)

    def first(self, kind):
        """The first message of this kind, waited for."""
        return eventually(lambda: self.of(kind))[0]

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]


class Gone:
    """A target that is not there any more."""

    def tell(self, message):
        raise pykka.ActorDeadError("gone")


def kill(actor: pykka.ActorRef) -> None:
    """Let the actor break in its next handler, whatever it understands, as by a fault of its own."""
    actor.tell(messages.ProxyGetAttr(attr_path=("killed_by_the_test",)))
    assert actor.actor_stopped.wait(SOON_S)


class Gate:
    """A point at which a play waits: `reached` by the play, `open()`ed by the test."""

    def __init__(self):
        self.reached = threading.Event()
        self._open = threading.Event()

    def open(self):
        self._open.set()

    def wait(self, cancel):
        """Raises Stopped when it is cancelled meanwhile, as a driver does."""
        self.reached.set()
        while not self._open.wait(0.005):
            if cancel.cancelled:
                raise Stopped("stopped")


class PlayedGateway:
    """Plays one list a request: events, gates, exceptions; `raw` plays are not ended by name."""

    def __init__(self, *plays, raw=False):
        self.plays = list(plays)
        self.raw = raw
        self.requests = []
        self.cancels = []

    def stream(self, request, cancel):
        self.requests.append(request)
        self.cancels.append(cancel)
        play = self.plays[min(len(self.requests), len(self.plays)) - 1]
        return self._raw(play, cancel) if self.raw else self._named(play, cancel)

    def _raw(self, play, cancel):
        for step in play:
            if isinstance(step, Gate):
                step.wait(cancel)
            elif isinstance(step, Exception):
                raise step
            else:
                yield step

    def _named(self, play, cancel):
        yield AttemptStarted("played", "model", stamp())
        end = None
        try:
            for event in self._raw(play, cancel):
                if isinstance(event, TERMINAL):
                    end = event
                    break
                yield event
        except Stopped as error:
            end = failure(error)
        status = {True: "ok", False: "error"}[isinstance(end, Done)]
        yield AttemptEnded("played", "model", status, None, 1, 2, None, None, 3, 4, stamp())
        yield end or Done("stop")

    def models(self):
        return []

    def providers(self):
        return []

    def close(self):
        pass


def call(name: str, call_id: str = "c", **arguments):
    """What a model streams that calls one tool."""
    return [ToolCallStarted(call_id, name), ToolCall(call_id, name, arguments), Done("tool_calls")]


class House:
    """A whole system in a home of its own, with a gateway that plays."""

    def __init__(self, home, settings="", environment=None):
        home.mkdir(exist_ok=True)
        (home / "timothy.toml").write_text(
            f'[turn]\ncheckpoint_s = 0.05\n{settings}\n[[providers]]\nname = "s"\ndriver = "scripted"\n'
        )
        self.system = System(load(home, None, {}), home, {})

    def plays(self, *plays, raw=False):
        """From now on the gateway plays these."""
        self.system.gateway = PlayedGateway(*plays, raw=raw)
        return self.system.gateway

    def session(self):
        session_id = str(uuid.uuid4())
        self.system.write(CreateSession(append_id=str(uuid.uuid4()), session_id=session_id, title=None))
        return session_id

    def ask(self, session_id, text="Hello", **fields):
        """The answer to a send: Accepted, Busy or NotBegun."""
        answer = Answer()
        order = BeginTurn(
            append_id=str(uuid.uuid4()),
            session_id=session_id,
            turn_id=str(uuid.uuid4()),
            mode="new",
            started_at=stamp(),
            payload={"text": text},
            **fields,
        )
        self.system.sessions.tell(Send(session_id, order, text, time.monotonic() + 5, answer))
        return answer.get(SOON_S)

    def send(self, session_id, text="Hello"):
        """The claim of a turn that began."""
        accepted = self.ask(session_id, text)
        assert isinstance(accepted, Accepted), accepted
        return self.system.claims.get(session_id) or accepted

    def turn(self, *play, raw=False):
        """A new session's turn that plays this, up to its first gate if it has one."""
        self.plays(list(play), raw=raw)
        claim = self.send(self.session())
        for step in play:
            if isinstance(step, Gate):
                assert step.reached.wait(SOON_S)
                break
        return claim

    def stop(self, session_id, turn_id=None):
        answer = Answer()
        self.system.sessions.tell(Stop(session_id, turn_id, "stopped", "by the user", answer))
        return answer.get(SOON_S)

    def over(self, claim):
        """All events of the turn, once it is over."""
        eventually(lambda: claim.replay.closed)
        return claim.replay.events()

    def evidence(self, claim):
        """The turn's one evidence row: the last one, with all that was shown, and the claim is free."""
        events = self.over(claim)
        rows = self.system.read(queries.turn_records, claim.replay.turn_id)
        assert [row.kind in EVIDENCE_KINDS for row in rows] == [False] * (len(rows) - 1) + [True]
        shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert rows[-1].payload.get("text", "") == shown
        assert [isinstance(event, TERMINAL) for event in events][-2:] == [True, False]
        assert sum(isinstance(event, Done | Error) for event in events) == 1
        assert self.system.claims.get(claim.replay.session_id) is None
        return rows[-1]

    def close(self):
        self.system.end_turns()
        self.system.close()
