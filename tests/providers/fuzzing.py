"""Streams that were damaged on purpose: whatever the bytes, a driver ends by name, once, and soon.

python -m tests.providers.fuzzing --seed 7 --streams 100000
"""

import argparse
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.providers.peer import DATA, QUIRKS, driver, merged
from timothy.events import Done, Error, Event, encode

SLOW_S = 2.0
LONGEST = 9000
TOKENS = [
    *(b"data: ", b"data:", b"\n\n", b"\r\n\r\n", b"\r", b"\n", b": ping\n\n", b"data: [DONE]\n\n", b"[DONE]"),
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\x00", b"\xff", b"\xf0\x9f", b"\xef\xbb\xbf"),
    *(b"\xe2\x80\xa8", b"\\ud83d", b"\\ude00", b"\\u0000", b"<think>", b"</think>"),
]
VALUES = [
    *(
        b"null",
        b"true",
        b"false",
        b"0",
        b"-1",
        b"1.5",
        b"1e999",
        b"NaN",
        b"9" * 23,
        b'""',
        b"{}",
        b"[]",
        b"[" * 2000,
    ),
    *(
        b'"\\ud83d"',
        b'"\\ude00"',
        b'"\\u0000"',
        b'"<think>"',
        b'"</think>"',
        b'"{"',
        b'"}"',
        b'{"a":1}',
        b'"\xff"',
    ),
    *(b'"stop"', b'"length"', b'"error"', b'"content_filter"', b'"message_stop"', b'"tool_use"', b'"text"'),
    *(
        b'[{"text":"a"}]',
        b'[{"index":0,"function":{"name":"x","arguments":"{}"}}]',
        b'{"message":"no","code":429}',
    ),
]
FIELDS = [
    *(
        b'"error":',
        b'"type":',
        b'"choices":',
        b'"delta":',
        b'"message":',
        b'"content":',
        b'"tool_calls":',
        b'"usage":',
    ),
    *(
        b'"index":',
        b'"id":',
        b'"name":',
        b'"arguments":',
        b'"function":',
        b'"finish_reason":',
        b'"done":',
        b'"input":',
    ),
    *(
        b'"reasoning":',
        b'"refusal":',
        b'"prompt_progress":',
        b'"content_block":',
        b'"stop_reason":',
        b'"object":',
    ),
]
# What terminated() makes of an exception that no driver named: the fuzz exists to find these.
UNNAMED = re.compile(r"[A-Za-z]+(Error|Exception|Warning|Interrupt|Iteration): ")
Mutation = Callable[[bytes, random.Random], bytes]


def bodies() -> list[tuple[str, bytes]]:
    """Every recorded body that is not too long, with its wire."""
    quirks = [(case["wire"], case["body"].encode()) for case in QUIRKS]
    captures = [
        ("anthropic" if path.stem.startswith("anthropic") else "openai", path.read_bytes())
        for path in sorted((DATA / "llamacpp").glob("*.sse"))
    ]
    return [(wire, body) for wire, body in quirks + captures if len(body) <= LONGEST]


def _place(body: bytes, chance: random.Random) -> int:
    return chance.randint(0, len(body))


def _flip(body: bytes, chance: random.Random) -> bytes:
    at = _place(body, chance)
    return body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]


def _drop(body: bytes, chance: random.Random) -> bytes:
    at = _place(body, chance)
    return body[:at] + body[at + chance.randint(1, 80) :]


def _repeat(body: bytes, chance: random.Random) -> bytes:
    at, length = _place(body, chance), chance.randint(1, 400)
    return body[: at + length] + body[at:]


def _insert(body: bytes, chance: random.Random) -> bytes:
    at = _place(body, chance)
    return body[:at] + chance.choice(TOKENS) + body[at:]


def _cut(body: bytes, chance: random.Random) -> bytes:
    return body[: _place(body, chance)]


def _value(body: bytes, chance: random.Random) -> bytes:
    """One JSON value replaced by something else."""
    found = list(re.finditer(rb'(?<=:) ?("[^"\n]{0,40}"|null|-?\d+|true|false|\{\}|\[\])', body))
    if not found:
        return body
    spot = chance.choice(found)
    return body[: spot.start()] + chance.choice(VALUES) + body[spot.end() :]


def _field(body: bytes, chance: random.Random) -> bytes:
    """One more field in an object."""
    found = [match.end() for match in re.finditer(rb"\{", body)]
    if not found:
        return body
    at = chance.choice(found)
    comma = b"" if body[at : at + 1] == b"}" else b","
    return body[:at] + chance.choice(FIELDS) + chance.choice(VALUES) + comma + body[at:]


def _frames(body: bytes, chance: random.Random) -> bytes:
    """The frames in another order."""
    frames = body.split(b"\n\n")
    chance.shuffle(frames)
    return b"\n\n".join(frames)


def _ends(body: bytes, chance: random.Random) -> bytes:
    return body.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n"]))


MUTATIONS: list[Mutation] = [_flip, _drop, _repeat, _insert, _cut, _frames, _ends]
MUTATIONS += [_value, _field] * 6


def damaged(body: bytes, other: bytes, chance: random.Random) -> bytes:
    """`body` after one to four mutations, and now and then with a piece of `other` in it."""
    for _ in range(chance.randint(1, 4)):
        body = chance.choice(MUTATIONS)(body, chance)
    if chance.random() < 0.1:
        body = body[: _place(body, chance)] + other[_place(other, chance) :]
    return body


def split(body: bytes, chance: random.Random) -> list[bytes]:
    """`body` in up to 30 reads."""
    places = sorted(chance.randint(0, len(body)) for _ in range(chance.randint(0, 29)))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def check(asked: Any, body: bytes, reads: list[bytes]) -> list[Event]:
    """The events of a body that came in `reads`. Raises AssertionError when a promise is broken."""
    began = time.perf_counter()
    events = list(asked.parse(reads))
    assert time.perf_counter() - began < SLOW_S, "too slow"
    ends = [event for event in events if isinstance(event, Done | Error)]
    assert len(ends) == 1 and ends[0] is events[-1], f"{len(ends)} terminal events"
    for event in events:
        encode(event)
    last = events[-1]
    assert not (isinstance(last, Error) and UNNAMED.match(last.message)), last
    assert merged(events) == merged(asked.parse([body])), "another split gives other events"
    return events


def fuzz(seed: int, streams: int) -> dict[str, int]:
    """Checks so many streams; how often each ending came. Raises AssertionError with all that repeats it."""
    chance = random.Random(seed)
    recorded = bodies()
    drivers = {wire: driver(wire) for wire in {wire for wire, _ in recorded}}
    endings: dict[str, int] = {}
    for number in range(streams):
        wire, body = chance.choice(recorded)
        body = damaged(body, chance.choice(recorded)[1], chance)
        reads = split(body, chance)
        try:
            last = check(drivers[wire], body, reads)[-1]
        except Exception as error:
            raise AssertionError(
                f"seed {seed}, stream {number}, {wire}: {error}\n{body!r}\n{reads!r}"
            ) from error
        ending = last.code if isinstance(last, Error) else "done"
        endings[ending] = endings.get(ending, 0) + 1
    return endings


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", type=int, default=100_000)
    given = parser.parse_args()
    began = time.monotonic()
    endings = fuzz(given.seed, given.streams)
    for ending, count in sorted(endings.items(), key=lambda item: -item[1]):
        print(f"{ending:<20}{count:>8}")
    seconds = time.monotonic() - began
    print(f"{given.streams} streams of seed {given.seed} in {seconds:.0f} s: each ended by name, once")
    sys.exit(0)


if __name__ == "__main__":
    main()
