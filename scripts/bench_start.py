"""From a fresh clone to the first token of the embedded model: times and sizes, as a newcomer has them.

It downloads what `scripts/run` downloads, so it is not part of `scripts/bench` without a name.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_report import Report

from timothy.client import Client
from timothy.events import Meta, TextDelta

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(http://\S+)/#token=(\S+)")
FIRST_TOKEN_MOST_S = 300.0
START_MOST_S = 10.0


def main() -> None:
    """Clone, run, ask, run again, print, and exit with 1 when a target is missed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="timothy-bench-") as folder:
        clone, home = Path(folder) / "clone", Path(folder) / "home"
        home.mkdir()
        began = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        with running(clone, home) as (url, token, process):
            served = time.monotonic() - began
            first, rate = ask(url, token)
            memory = child_mb(process.pid)
        began = time.monotonic()
        with running(clone, home):
            again = time.monotonic() - began
        report.title("start: a fresh clone, an empty home, the embedded model")
        report.figure("from the clone until it serves", served, "s")
        report.figure("the first message until its first token", first, "s")
        report.figure("the same run again, until it serves", again, "s")
        report.figure("after the first token", rate, "tokens/s")
        report.figure("the model's process", memory, "MB")
        report.figure("the Python environment", size_mb(clone / ".venv"), "MB")
        report.figure("the home, weights included", size_mb(home), "MB")
        report.at_most("start: from the clone to the first token, s", served + first, FIRST_TOKEN_MOST_S)
        report.at_most("start: the second run, s", again, START_MOST_S)
    sys.exit(report.verdict())


@contextmanager
def running(clone: Path, home: Path) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """`scripts/run` with an empty HOME, from the moment on when it says where it listens."""
    variables = {**os.environ, "HOME": str(home), "TIMOTHY_HOME": str(home / "timothy")}
    variables.pop("TIMOTHY_API_TOKEN", None)
    command = [str(clone / "scripts" / "run"), "--port", "0"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = next(filter(None, map(LINK.search, process.stdout)), None)
            if found is None:
                raise RuntimeError("scripts/run ended before it served; its own words stand above")
            yield found[1], found[2], process
        finally:
            process.terminate()


def ask(url: str, token: str) -> tuple[float, float]:
    """Seconds to the first token of the first message, and tokens a second after it."""
    client = Client(url, token)
    session = client.create_session()
    began, first, tokens = time.monotonic(), 0.0, 0
    for event in client.send(session.id, "Write three sentences about the sea."):
        if isinstance(event, TextDelta) and not first:
            first = time.monotonic() - began
        if isinstance(event, Meta) and event.usage:
            tokens = event.usage.output_tokens or 0
    return first, tokens / (time.monotonic() - began - first)


def child_mb(server: int) -> float:
    """The memory of the server's largest child, in megabytes (proc(5): stat, statm)."""
    pages = [0]
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            if parent == server:
                pages.append(int((entry.parent / "statm").read_text().split()[1]))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return max(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def size_mb(folder: Path) -> float:
    """What all files in the folder take, in megabytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    main()
