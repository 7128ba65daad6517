"""What a running turn's replay weighs, against its text: every token a frame of its own."""

import argparse
import sys
import tracemalloc

from bench_report import Report

from timothy.events import TextDelta
from timothy.turn.replay import Replay

TIMES_MOST = 2.2
WORDS = ("the ", "model ", "says ", "what ", "it ", "found ", "in ", "pieces, ", "and ", "so ", "on.\n")
IDS = ("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7")


def main() -> None:
    """Fill one replay, print, and exit with 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=90_000)
    tokens = parser.parse_args().tokens
    report = Report()
    text, replay = weigh(tokens)
    report.title(f"memory: a replay of {tokens:,} frames, a token each")
    report.figure("text", text / 1e6, "MB")
    report.figure("replay", replay / 1e6, "MB")
    report.at_most("memory: replay over text", replay / text, TIMES_MOST)
    sys.exit(report.verdict())


def weigh(tokens: int) -> tuple[int, int]:
    """Bytes of the text, and bytes that its replay holds. Words come in an order that does not repeat."""
    words, seed, text = [], 1, 0
    for _ in range(tokens):
        seed = (seed * 48271) % 2147483647  # Lehmer's generator: the same words in every run
        words.append(WORDS[seed % len(WORDS)])
    replay = Replay(*IDS)
    tracemalloc.start()
    for word in words:
        replay.append(TextDelta(word))
        text += len(word)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return text, held


if __name__ == "__main__":
    main()
