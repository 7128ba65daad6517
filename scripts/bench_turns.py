"""Turns against the floor, in one run: the same provider, the same client, a pipe or the product between."""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import bench_client
from bench_client import Ask, Seen, watch
from bench_report import Report, percentile
from bench_servers import Floor, Process, Product, Server, Source

RATE = 50
ENDLESS = 100_000_000
FLOOD_LEAST = 1.0
PACED_MOST = 1.6
LATE_MOST_MS = 20.0
HEALTH_MOST_MS = {True: 50.0, False: 100.0}  # one flood alone, or several
STOP_MOST_MS = 250.0


@dataclass(frozen=True)
class Size:
    """How much: tokens of a saturated turn, paced turns and their seconds, and how often all of it."""

    tokens: int
    turns: int
    seconds: float
    rounds: int
    together: int

    @property
    def flood(self) -> str:
        return f"flood-{self.tokens}"

    @property
    def paced(self) -> str:
        return f"paced-{RATE}-{round(RATE * self.seconds)}"


@dataclass(frozen=True)
class Run:
    """Some streams at once: what the client saw, and the server's processor time."""

    seen: list[Seen]
    processor_s: float

    @property
    def tokens(self) -> int:
        return sum(stream.tokens for stream in self.seen)

    @property
    def rate(self) -> float:
        """Tokens a second, from the first request to the last end."""
        began = min(stream.sent_at for stream in self.seen)
        return self.tokens / (max(stream.ended_at for stream in self.seen) - began)

    @property
    def processor_per_10k(self) -> float:
        """Processor seconds of the server for 10,000 tokens."""
        return self.processor_s / self.tokens * 10_000

    @property
    def writes_per_1k(self) -> float:
        return sum(stream.writes for stream in self.seen) / self.tokens * 1000

    def late_ms(self, percent: float) -> float:
        """How late a token came, from the provider's stamp to the client."""
        return percentile([late for stream in self.seen for late in stream.latencies], percent) * 1000

    def first_ms(self, percent: float) -> float:
        """From the request to the first token."""
        return percentile([stream.first_at - stream.sent_at for stream in self.seen], percent) * 1000


def measure(server: Server, model: str, turns: int, expected: int, *, stamped: bool, apart_s: float) -> Run:
    """So many streams of `model`. Raises RuntimeError when a token is missing."""
    asks = [server.ask(model) for _ in range(turns)]
    before = server.process.processor_s()
    run = Run(watch(asks, stamped=stamped, apart_s=apart_s), server.process.processor_s() - before)
    for stream in run.seen:
        if stream.tokens != expected:
            raise RuntimeError(f"{server.name}: {stream.tokens} of {expected} tokens came; {stream.start!r}")
    return run


def saturated(report: Report, floor: Server, product: Server, size: Size, turns: int) -> None:
    """A few turns as fast as the tokens come."""
    report.title(f"saturated: {turns} x {size.tokens:,} tokens as fast as they come (floor, product)")
    runs = [_flood(floor, product, size, turns) for _ in range(size.rounds)]
    ratios = [made.rate / pipe.rate for pipe, made in runs]
    pipe, made = runs[ratios.index(statistics.median_low(ratios))]
    report.pair("tokens a second", pipe.rate, made.rate, "tokens/s")
    report.pair("processor time", pipe.processor_per_10k, made.processor_per_10k, "s/10k")
    report.pair("writes to the client", pipe.writes_per_1k, made.writes_per_1k, "per 1k")
    report.pair("first token", pipe.first_ms(50), made.first_ms(50), "ms")
    report.at_least(f"saturated, {turns} at once: tokens a second", statistics.median(ratios), FLOOD_LEAST)


def _flood(floor: Server, product: Server, size: Size, turns: int) -> tuple[Run, Run]:
    both = [
        measure(server, size.flood, turns, size.tokens, stamped=False, apart_s=0)
        for server in (floor, product)
    ]
    return both[0], both[1]


def paced(report: Report, floor: Server, product: Server, size: Size) -> None:
    """Many turns at a model's usual pace."""
    report.title(f"paced: {size.turns} turns at {RATE} tokens/s for {size.seconds:g} s (floor, product)")
    runs = [_paced(floor, product, size) for _ in range(size.rounds)]
    ratios = [made.processor_per_10k / pipe.processor_per_10k for pipe, made in runs]
    pipe, made = runs[ratios.index(statistics.median_low(ratios))]
    report.pair("processor time", pipe.processor_per_10k, made.processor_per_10k, "s/10k")
    for percent in (50, 99, 99.9):
        report.pair(f"token latency, p{percent:g}", pipe.late_ms(percent), made.late_ms(percent), "ms")
    report.pair("first token, p50", pipe.first_ms(50), made.first_ms(50), "ms")
    report.pair("first token, p99", pipe.first_ms(99), made.first_ms(99), "ms")
    report.at_most("paced: processor time", statistics.median(ratios), PACED_MOST)
    late = statistics.median(made.late_ms(99) - pipe.late_ms(99) for pipe, made in runs)
    report.at_most("paced: p99 of token latency over the floor's, ms", late, LATE_MOST_MS)


def _paced(floor: Server, product: Server, size: Size) -> tuple[Run, Run]:
    tokens, apart_s = round(RATE * size.seconds), min(0.01, size.seconds / size.turns / 2)
    both = [
        measure(server, size.paced, size.turns, tokens, stamped=True, apart_s=apart_s)
        for server in (floor, product)
    ]
    return both[0], both[1]


def fairness(report: Report, product: Product, size: Size, turns: int) -> None:
    """What others feel while turns flood, and how long a stop takes. (The floor starves everyone else.)"""
    report.title(f"fairness: others, while {turns} saturated turns run (idle, flooded)")
    probes = round(size.seconds * 10)
    idle = _health_ms(product.process, probes)
    sessions = [product.new_session() for _ in range(turns)]
    floods = [Flood(product.send(session_id, f"flood-{ENDLESS}")) for session_id in sessions]
    busy = _health_ms(product.process, probes)
    stops = [_stop_ms(product, session_id) for session_id in sessions]
    for flood in floods:
        flood.join()
    report.pair("GET /health, p50", percentile(idle, 50), percentile(busy, 50), "ms")
    report.pair("GET /health, p99", percentile(idle, 99), percentile(busy, 99), "ms")
    report.figure("a stop, until its evidence is durable", max(stops), "ms")
    report.figure("the longest silence of a viewer", max(flood.silence_s for flood in floods) * 1000, "ms")
    report.at_most(
        f"fairness, {turns} at once: GET /health p99, ms", percentile(busy, 99), HEALTH_MOST_MS[turns == 1]
    )
    report.at_most(f"fairness, {turns} at once: a stop, ms", max(stops), STOP_MOST_MS)


class Flood:
    """A viewer of a turn that floods, in a thread; `silence_s` is the longest gap between two reads."""

    def __init__(self, ask: Ask) -> None:
        self._connection = bench_client.begin(ask, stamped=False).connection
        self.silence_s = 0.0
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._begun.wait(60):
            raise RuntimeError("a turn that floods does not begin")

    def join(self) -> None:
        """Wait for the stream's end."""
        self._thread.join(60)

    def _run(self) -> None:
        last = time.monotonic()
        while data := self._connection.recv(bench_client.READ_BYTES):
            now = time.monotonic()
            if self._begun.is_set():
                self.silence_s = max(self.silence_s, now - last)
            elif b"~" in data:
                self._begun.set()
            last = now
        self._connection.close()


def _health_ms(process: Process, probes: int) -> list[float]:
    found = []
    for _ in range(probes):
        began = time.monotonic()
        bench_client.call(process.port, "GET", "/health")
        found.append((time.monotonic() - began) * 1000)
        time.sleep(0.02)
    return found


def _stop_ms(product: Product, session_id: str) -> float:
    began = time.monotonic()
    answer = product.stop(session_id)
    if b'"outcome"' not in answer:
        raise RuntimeError(f"the stop was answered {answer!r}")
    return (time.monotonic() - began) * 1000


def main() -> None:
    """Measure, print, and exit with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=50_000, help="of a saturated turn")
    parser.add_argument("--turns", type=int, default=100, help="paced turns at once")
    parser.add_argument("--seconds", type=float, default=20, help="how long a paced turn runs")
    parser.add_argument("--rounds", type=int, default=3, help="how often; the median counts")
    parser.add_argument("--together", type=int, default=8, help="saturated turns at once")
    parser.add_argument("--only", choices=("saturated", "paced", "fairness"), action="append")
    given = parser.parse_args()
    size = Size(given.tokens, given.turns, given.seconds, given.rounds, given.together)
    parts = given.only or ["saturated", "paced", "fairness"]
    sys.exit(run(size, parts))


def run(size: Size, parts: list[str]) -> int:
    """The parts by name; the exit status."""
    report = Report()
    models = (size.flood, size.paced, f"flood-{ENDLESS}")
    with tempfile.TemporaryDirectory(prefix="timothy-bench-") as folder, Source() as source:
        assert isinstance(source, Source)
        floor, product = Floor(source), Product(source, Path(folder, "home"), models)
        with floor.process, product.process:
            for server in (floor, product):  # the first turn of a process pays for its imports
                measure(server, size.flood, 1, size.tokens, stamped=False, apart_s=0)
            if "saturated" in parts:
                saturated(report, floor, product, size, 1)
                saturated(report, floor, product, size, size.together)
            if "paced" in parts:
                paced(report, floor, product, size)
            if "fairness" in parts:
                for turns in (1, size.together):
                    fairness(report, product, size, turns)
    return report.verdict()


if __name__ == "__main__":
    main()
