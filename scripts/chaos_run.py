#!/usr/bin/env python3
"""A chaos run: faults, impatient clients and sudden deaths, then an independent proof that nothing was lost.

    scripts/chaos --turns 2000 --seed 7                    kills at random moments, full disks
    scripts/chaos --turns 200 --seed 7 --mode steps        a death at every named step of a turn

In both, the server's clock jumps two hours forward and back where libfaketime is installed.

The seed decides what every client and the provider do; the moments depend on the machine. Exit status: 0 when
every rule holds, 1 when not; then the database and the histories are kept, and their place is said.
"""

import argparse
import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chaos_clients import History, Visitor
from chaos_machine import JumpingClock, small_disk
from chaos_world import ENTRIES, TOKEN, Provider, Server, steps

from timothy.client import Client, errors

# What the usual model does, request by request: (how often, the behaviour).
FICKLE: list[tuple[int, dict[str, object]]] = [
    (12, {"tokens": 8, "delay_s": 0.01}),
    (2, {"tokens": 40, "delay_s": 0.05}),
    (1, {"tokens": 0}),
    (1, {"status": 500}),
    (1, {"status": 429, "retry_after": "1"}),
    (1, {"tokens": 3, "end": "cut"}),
    (1, {"tokens": 3, "end": "error"}),
    (1, {"tokens": 0, "end": "reset"}),
]
STEPS = steps()
SETTLE_S = 60.0
STEP_S = 8.0
Disaster = Callable[[], None]


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    folder = Path(tempfile.mkdtemp(prefix="timothy-chaos-"))
    began = time.monotonic()
    run = Run(folder, options)
    try:
        broken = run.run()
    finally:
        run.close()
    seconds = time.monotonic() - began
    print(
        f"chaos: seed {options.seed}, mode {options.mode}: {run.summary()} in {seconds:.0f} s: "
        + ("BROKEN, see " + str(folder) if broken else "every rule holds")
    )
    if not broken:
        shutil.rmtree(folder)
    return 1 if broken else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill, cut and fill the disk, then check the log.")
    parser.add_argument("--turns", type=int, default=2000, help="end after so many turns (%(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="or after so long (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="default: a new one")
    parser.add_argument("--mode", choices=["random", "steps"], default="random")
    parser.add_argument("--kills", type=int, help="how many in mode random; default: one every 40 turns")
    parser.add_argument("--jumps", type=int, default=10, help="of the clock, default: %(default)s")
    parser.add_argument("--clients", type=int, default=16, help="default: %(default)s")
    options = parser.parse_args()
    if options.kills is None:
        options.kills = options.turns // 40
    return options


class Run:
    """One run: a world, its clients, its disasters, and what they came to."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._options = options
        self._random = random.Random(options.seed)
        self._folder = folder
        self._disk = small_disk(folder)
        self._clock = JumpingClock(folder)
        gap = options.turns / (options.jumps + 1)
        self._jumps = [gap * number for number in range(options.jumps, 0, -1)]
        self._provider = Provider()
        weights, behaviours = zip(*FICKLE, strict=True)
        order = self._random.choices(behaviours, weights, k=options.turns * 2)
        self._provider.order(ENTRIES["fickle"], order)
        self.server = Server(self._disk, self._clock, self._provider.url)
        self.history = History(options.turns)
        self._fills: list[tuple[float, float]] = []
        self.reached: Counter[str] = Counter()
        self._step = ""
        self._steps = itertools.cycle(self._random.sample(STEPS, len(STEPS)))

    def run(self) -> bool:
        """True when something is broken."""
        print(f"chaos: the disk is {self._disk.kind}")
        if not self._clock.can_jump:
            print("chaos: no libfaketime here, so the clock does not jump (Debian: apt install faketime)")
        self.server.start()
        client = Client(self.server.url, TOKEN)
        sessions = [client.create_session().id for _ in range(self._options.clients * 2)]
        visitors = [
            Visitor(
                self.server.url,
                self._random.getrandbits(32),
                sessions,
                self.history,
                tools=self._options.mode == "steps",
            )
            for _ in range(self._options.clients)
        ]
        self.history.deadline = time.monotonic() + self._options.minutes * 60
        for visitor in visitors:
            visitor.start()
        self._wreak(visitors)
        self._settle(client, sessions)
        return self._judged()

    def close(self) -> None:
        if self.server.alive:
            self.server.kill()
        self._provider.close()
        self._disk.close()

    def summary(self) -> str:
        """What happened, in numbers."""
        history = self.history
        return (
            f"{history.turns} turns, {len(self.server.kills)} kills, {len(self._fills)} full disks, "
            f"{len(self._clock.jumps)} jumps of the clock, {len(history.views)} views, "
            f"{sum(history.refusals.values())} refusals"
        )

    def _wreak(self, visitors: list[Visitor]) -> None:
        """Disasters until the clients have had enough."""
        disasters = self._sudden() if self._options.mode == "random" else self._step_by_step()
        at, disaster = next(disasters)
        while any(visitor.is_alive() for visitor in visitors):
            self._pass()
            if not self.server.alive:
                self._died()
            elif self.history.turns >= at and not self.history.enough:
                disaster()
                at, disaster = next(disasters)

    def _sudden(self) -> Iterator[tuple[float, Disaster]]:
        """(turns taken by then, disaster): kills at even distances, more or less, and some full disks."""
        gap = self._options.turns / (self._options.kills + 1)
        for number in range(1, self._options.kills + 1):
            yield gap * (number - self._random.random() / 2), self._kill
            if number % 4 == 0:
                yield gap * (number + self._random.random() / 2), self._fill
        yield float("inf"), self._kill

    def _step_by_step(self) -> Iterator[tuple[float, Disaster]]:
        """Death at the next step, as soon as the one before was reached, or was not for too long."""
        while True:
            yield 0, self._next_step

    def _kill(self) -> None:
        time.sleep(self._random.random() * 0.3)
        self.server.kill()
        self.server.start()

    def _fill(self) -> None:
        """A full disk for a while; every other time the server dies on it."""
        began = time.time()
        self.server.fill_disk(self._random.choice([0, 0, 8192, 65536]))
        time.sleep(0.5 + self._random.random() * 2)
        if len(self._fills) % 2:
            self.server.kill()
        self.server.free_disk()
        self._fills.append((began, time.time()))
        if not self.server.alive:
            self.server.start()

    def _next_step(self) -> None:
        """A server that dies at the next step, after it was passed a few times."""
        if self.server.alive:
            self.server.kill()
        self._step = next(self._steps)
        self.server.start(f"{self._step}:{self._random.randint(1, 6)}")
        deadline = time.monotonic() + STEP_S
        while self.server.alive and time.monotonic() < deadline and not self.history.enough:
            self._pass()

    def _pass(self) -> None:
        """A moment goes by; the clock may jump."""
        time.sleep(0.01)
        if self._jumps and self.history.turns >= self._jumps[-1]:
            self._jumps.pop()
            self._jump()

    def _jump(self) -> None:
        if self._clock.can_jump:
            self._clock.jump()

    def _died(self) -> None:
        """The server is gone and nobody killed it: a named step was reached, or something is wrong."""
        status = self.server.buried()
        if status == -9 and self._step:
            self.reached[self._step] += 1
        else:
            self._surprised(f"the server died by itself, status {status}")
        self._step = ""
        if self._options.mode == "steps" and not self.history.enough:
            self._next_step()
        else:
            self.server.start()

    def _surprised(self, what: str) -> None:
        self.history.surprised(f"{what}; the server's last words:\n" + "".join(self.server.said))

    def _settle(self, client: Client, sessions: list[str]) -> None:
        """No more faults: every session must answer a message, and the server must go in order."""
        if self._step:
            self.server.kill()
            self.server.start()
        for number, session_id in enumerate(sessions):
            self._probe(client, session_id)
            if number in (len(sessions) // 3, len(sessions) * 2 // 3):
                self._jump()
        listed = [session.id for session in client.sessions()]
        if listed != sessions[::-1]:
            self._surprised(f"the sessions are not listed newest first: {listed}, made {sessions}")
        status = self.server.stop()
        if status != 0:
            self._surprised(f"an orderly stop ended with status {status}")

    def _probe(self, client: Client, session_id: str) -> None:
        deadline = time.monotonic() + SETTLE_S
        while client.session(session_id).turn_active and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            outcome = client.send(session_id, "Are you there?", ENTRIES["steady"]).wait().outcome
        except errors.TimothyError as error:
            outcome = f"{error.code}: {error.message}"
        self.history.probed(session_id, outcome, client.session(session_id).turn_active)

    def _judged(self) -> bool:
        histories = self._folder / "histories.json"
        faults = {"kills": self.server.kills, "jumps": self._clock.jumps, "full": self._fills}
        self.history.save(histories, **faults)
        checker = Path(__file__).with_name("check_log.py")
        database = self._disk.home / "timothy.db"
        verdict = subprocess.run([sys.executable, checker, database, histories])
        for surprise in self.history.surprises[:10]:
            print(f"surprise: {surprise}")
        print(f"refusals: {dict(self.history.refusals)}")
        if self._options.mode == "steps":
            print(f"steps: { ({step: self.reached[step] for step in STEPS}) }")
        return bool(verdict.returncode or self.history.surprises)


if __name__ == "__main__":
    sys.exit(main())
