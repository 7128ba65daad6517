"""Start and stop: everything that lives while the server does, in order, on one screen."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import peewee
import pykka

from actors.addresses import Addresses
from actors.base import Answer, deliver
from actors.claims import Claim, Claims, Pending
from actors.clock import ClockActor, Deadlines
from actors.context import ContextReader
from actors.door import Door
from actors.instructions import Instructions
from actors.messages import Go, Notify, Stop, Write, Wrote
from actors.native import Native, Pool
from actors.notify import Notifier
from actors.persistence import Backlog, PersistenceActor
from actors.session import SessionActor, SessionParts
from actors.sessions import Rooms, Sessions
from actors.settings import Settings
from actors.title import Naming
from actors.toolbox import Toolbox
from actors.turn import TurnActor, TurnParts
from actors.viewer import Viewers
from timothy import home as homes
from timothy.config import Config
from timothy.database import FILE_NAME, open_database
from timothy.errors import Interrupted, StartError, StorageUnavailable
from timothy.eventlog import files, queries, settings
from timothy.eventlog.records import AnyOrder, BeginTurn, Refused, Verdict
from timothy.eventlog.recovery import MESSAGE, Recovered, recover
from timothy.eventlog.store import STORAGE_FAULTS, Writer
from timothy.gateway.base import Gateway
from timothy.gateway.open import open_gateway
from timothy.schema import migrate
from timothy.turn.machine import Limits

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

READERS = 2
WRITE_S = 5.0
NO_CLAIM_S = 7.0  # of a grace of 10: a disk that fails may take two more for its last tries
NAMING_S = 1.0
EXIT_BROKEN = 70


class System:
    """The running assistant. `web/` reads `claims`, `pending`, `viewers`, and tells `sessions`."""

    def __init__(self, config: Config, home: Path, environment: Mapping[str, str] = os.environ) -> None:
        """Start, in this order. Raises StartError when it must not; then nothing is left open."""
        self.config = config
        self.home = home
        self.accepting = True
        self.claims, self.pending, self.backlog = Claims(), Pending(), Backlog()
        self.viewers = Viewers(config.stream.heartbeat_s)
        homes.prepare(home)
        with ExitStack() as opened:
            with _usable(home):
                opened.enter_context(closing(homes.lock(home)))
                migrate(home / FILE_NAME)
            self._open(opened, environment)
            with _usable(home):
                self._open_log(opened)
            self._start_actors(opened)
            self._opened = opened.pop_all()

    def _open(self, opened: ExitStack, environment: Mapping[str, str]) -> None:
        self.gateway: Gateway = opened.enter_context(
            closing(open_gateway(self.config, self.home, environment))
        )
        self.disk = opened.enter_context(closing(Native()))
        self.toolbox = opened.enter_context(closing(Toolbox(self.config, self.home)))

    def _open_log(self, opened: ExitStack) -> None:
        file = self.home / FILE_NAME
        self._native = opened.enter_context(closing(Native()))
        self._writer = Writer(open_database(file))
        opened.callback(self._close_log)
        self.recovered = self._recover()
        self.tidy_files()
        readers = [open_database(file, read_only=True) for _ in range(READERS)]
        self._reads = opened.enter_context(closing(Pool(readers)))
        self._context = ContextReader(self.read, self.gateway, self.home)
        changed = Settings(self.read(settings.stored))
        self.addresses = Addresses(self.config.notify, changed)
        self.instructions = Instructions(self.config.assistant.instructions, changed)

    def _start_actors(self, opened: ExitStack) -> None:
        """Each is stopped before those that it tells."""
        self._deadlines = Deadlines()
        self.clock = Door("clock", lambda door: ClockActor.start(door, self._deadlines), _give_up)
        opened.callback(self.clock.stop)
        writes = (self._writer.commit, self._native, self.clock, self.backlog)
        self.persistence = Door("persistence", lambda door: PersistenceActor.start(door, *writes), _give_up)
        opened.callback(self.persistence.stop)
        self._naming = Naming(self.config.titles, self.gateway, self.persistence)
        opened.callback(lambda: _wait(lambda: not self._naming.running, NAMING_S))
        opened.callback(self._naming.close)
        self._rooms = Rooms(self._start_session)
        opened.callback(self._rooms.close)
        self.sessions = Door("sessions", lambda door: Sessions.start(door, self._rooms), _give_up)
        opened.callback(self.sessions.stop)
        self._notifier = Notifier.start(self.addresses)
        opened.callback(self._notifier.stop, block=False)
        self._tell_of_recovered()
        self.viewers.start(self.clock)

    def end_turns(self) -> None:
        """Refuse new sends, end every turn as `server_shutdown`, wait until the evidence is durable (7 s)."""
        self.accepting = False
        for session_id in self.claims:
            stop = Stop(session_id, None, "server_shutdown", "the server was shut down", None)
            deliver(self.sessions, stop)
        if _wait(lambda: len(self.claims) == 0, NO_CLAIM_S):
            _wait(lambda: len(self.viewers) == 0, 1.0)

    def close(self) -> None:
        """Stop and close everything, in the reverse order of the start; one failure keeps no other open."""
        self._opened.close()

    def _close_log(self) -> None:
        try:
            self._native(self._writer.close)
        except STORAGE_FAULTS as error:
            logger.error("the log could not be tidied up; the next start does it: %s", error)

    def read(self, query: Callable[..., Result], *plain: Any, **named: Any) -> Result:
        """A query of `timothy.eventlog.queries` in a native thread, its connection left out."""
        return self._reads(query, *plain, **named)

    def write(self, order: AnyOrder) -> Verdict:
        """The order, durable or refused. Raises StorageUnavailable when it cannot be saved within 5 s."""
        answer = Answer()
        self.persistence.tell(Write(order, answer, "web", time.monotonic() + WRITE_S))
        news: Wrote = answer.verdict()
        if isinstance(news.verdict, Refused) and news.verdict.code == StorageUnavailable.code:
            raise StorageUnavailable(news.verdict.message)
        return news.verdict

    def tidy_files(self) -> None:
        """Remove the attached files that no session's log names any more; what fails, the next time does.

        A message that the writer has not decided on keeps its files, also when its sender gave up.
        """
        if any(_brings_files(write.order) for write in list(self.backlog.pending)):
            return
        try:
            gone = self.disk(files.tidy, self.home)
        except (OSError, peewee.DatabaseError) as error:
            logger.warning("attached files that no session names could not be removed: %s", error)
            return
        if gone:
            logger.info("removed %d attached files that no session names any more", len(gone))

    def _recover(self) -> list[Recovered]:
        database = open_database(self.home / FILE_NAME)
        recovered = recover(database, self._writer)
        database.close()
        for turn in recovered:
            logger.warning(
                "recovered turn %s of session %s as interrupted, with %d characters of text",
                turn.turn_id,
                turn.session_id,
                turn.characters,
            )
        return recovered

    def _tell_of_recovered(self) -> None:
        """Nobody watches a turn that a crash ended."""
        for turn in self.recovered if self.addresses.all() else ():
            session = self.read(queries.session, turn.session_id)
            title = session["title"] if session else None
            self._notifier.tell(Notify(Interrupted.code, turn.session_id, turn.turn_id, title, MESSAGE))

    def _start_session(self, session_id: str) -> pykka.ActorRef[Any]:
        parts = SessionParts(
            self.claims,
            self.persistence,
            self.sessions,
            self._start_turn,
            self._notify,
            self._naming,
            lambda: self.accepting,
            _give_up,
        )
        return SessionActor.start(session_id, parts)

    def _notify(self, news: Notify, watched: bool) -> None:
        """Tell the person elsewhere, if nobody watches the turn or that does not matter."""
        if self.config.notify.always or not watched:
            deliver(self._notifier, news)

    def _start_turn(self, claim: Claim) -> pykka.ActorRef[Any]:
        turn = TurnActor.start(claim, self._turn_parts())
        turn.tell(claim.end_early or Go())
        return turn

    def _turn_parts(self) -> TurnParts:
        settings = self.config.turn
        limits = Limits(text_bytes=int(settings.max_text_mb * (1 << 20)), permission_s=settings.permission_s)
        return TurnParts(
            pending=self.pending,
            persistence=self.persistence,
            sessions=self.sessions,
            clock=self.clock,
            gateway=self.gateway,
            toolbox=self.toolbox,
            context=self._context,
            notify=self._notify,
            limits=limits,
            ceiling_s=settings.ceiling_s,
            checkpoint_s=settings.checkpoint_s,
            system_prompt=self.instructions.prompt(),
        )


@contextmanager
def _usable(home: Path) -> Iterator[None]:
    """What fails in here is the disk or the file: a reason not to start, in words."""
    try:
        yield
    except (sqlite3.Error, *STORAGE_FAULTS) as error:
        raise StartError(
            f"the log in {home} cannot be opened: {error}. Is the disk full, the file read-only or damaged?"
        ) from error


def _brings_files(order: AnyOrder) -> bool:
    return isinstance(order, BeginTurn) and "attachments" in (order.payload or {})


def _give_up(name: str) -> None:
    """The log cannot be kept: die at once; recovery settles everything at the next start."""
    logger.critical("the %s actor cannot be kept alive: the server exits", name)
    os._exit(EXIT_BROKEN)


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
