"""A short run of the fuzz; scripts/fuzz is the long one."""

import pytest

from tests.providers.fuzzing import UNNAMED, bodies, check, fuzz
from timothy.events import Done, Error, TextDelta

pytestmark = pytest.mark.once

STREAMS = 1500


def test_a_damaged_stream_ends_by_name_once_and_soon() -> None:
    endings = fuzz(seed=20, streams=STREAMS)
    assert sum(endings.values()) == STREAMS
    assert {"done", "stream_cut", "malformed_stream"} <= set(endings)


def test_the_same_seed_is_the_same_run() -> None:
    assert fuzz(seed=3, streams=50) == fuzz(seed=3, streams=50)


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta("a")],
        [Done("stop"), Done("stop")],
        [Error("stream_cut", "KeyError: 'x'", True)],
        [Done("stop"), TextDelta("a")],
    ],
)
def test_the_check_can_fail(events: list[object]) -> None:
    class Broken:
        def parse(self, _: list[bytes]) -> list[object]:
            return events

    with pytest.raises(AssertionError):
        check(Broken(), b"", [])


def test_every_wire_is_in_it() -> None:
    assert {wire for wire, _ in bodies()} == {"openai", "anthropic", "ollama"}
    assert UNNAMED.match("ValueError: no")
