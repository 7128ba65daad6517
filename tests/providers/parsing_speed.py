"""Events parsed per second on every wire, against plain `json.loads` of each line in the same run.

    python -m tests.providers.parsing_speed

The floor does the least that any reader must: it takes the lines apart and decodes each with `json.loads`.
What is measured does all that a driver does but the socket: framing, typed decoding, the answer's fold, the
merging and mending of text, the events. Reads of 64 KB are a flood; one frame a read is a paced stream.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.providers.peer import driver, summed

EVENTS = 20_000
ROUNDS = 7
LEAST = 0.5
READ_BYTES = 65536
WORD = " word"
Lines = list[bytes]


def _openai(number: int) -> str:
    chunk = {
        "id": "chatcmpl-E2FTQOo493voLfFcveMSlF3RPkwav1sM",
        "object": "chat.completion.chunk",
        "created": 1796009013,
        "model": "local-default",
        "system_fingerprint": "fp_44709d6fcb",
        "choices": [{"index": 0, "delta": {"content": WORD}, "logprobs": None, "finish_reason": None}],
    }
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"


def _anthropic(number: int) -> str:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}}
    return f"event: content_block_delta\ndata: {json.dumps(event, separators=(',', ':'))}\n\n"


def _ollama(number: int) -> str:
    line = {
        "model": "llama3.2",
        "created_at": f"2026-08-04T08:52:19.385406455Z{number % 10}",
        "message": {"role": "assistant", "content": WORD},
        "done": False,
    }
    return json.dumps(line, separators=(",", ":")) + "\n"


FRAMES: dict[str, Callable[[int], str]] = {"openai": _openai, "anthropic": _anthropic, "ollama": _ollama}
ENDS = {
    "openai": "data: [DONE]\n\n",
    "anthropic": 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "ollama": '{"done":true,"done_reason":"stop"}\n',
}


def floor(body: bytes) -> int:
    """What any reader must do; the number of values."""
    values = 0
    for line in body.split(b"\n"):
        data = line.removeprefix(b"data: ")
        if data[:1] == b"{":
            json.loads(data)
            values += 1
    return values


def read(asked: Any, reads: Lines) -> int:
    """All that a driver does; the number of events."""
    return sum(1 for _ in asked.parse(reads))


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratios(wire: str, reads: Lines) -> tuple[float, float, float]:
    """Events per second of the floor and of the driver, and the median of their ratio, measured in turns."""
    asked, body = driver(wire), b"".join(reads)
    assert summed(asked.parse(reads))["text"] == WORD * EVENTS
    assert floor(body) >= EVENTS
    pairs = [(seconds(lambda: floor(body)), seconds(lambda: read(asked, reads))) for _ in range(ROUNDS)]
    plain, own = (EVENTS / statistics.median(times) for times in zip(*pairs, strict=True))
    return plain, own, statistics.median(least / took for least, took in pairs)


def main() -> None:
    """Measure, print, and exit with 1 when a wire is slower than the target."""
    missed = 0
    print(f"{'wire':<12}{'reads':<12}{'json.loads/s':>14}{'driver/s':>14}{'ratio':>8}")
    for wire, frame in FRAMES.items():
        frames = [*(frame(number).encode() for number in range(EVENTS)), ENDS[wire].encode()]
        body = b"".join(frames)
        flood = [body[place : place + READ_BYTES] for place in range(0, len(body), READ_BYTES)]
        for name, reads in (("64 KB", flood), ("one frame", frames)):
            plain, own, ratio = ratios(wire, reads)
            missed += ratio < LEAST
            verdict = "" if ratio >= LEAST else f"  MISS: at least {LEAST}"
            print(f"{wire:<12}{name:<12}{plain:>14,.0f}{own:>14,.0f}{ratio:>8.2f}{verdict}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
