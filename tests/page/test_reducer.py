"""The page's pure parts, under node, over the same fixtures that the server's vocabulary is checked with."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from timothy import events

TESTS = Path(__file__).parent
DATA = TESTS.parent / "data"
CASES = json.loads((DATA / "events.json").read_text(encoding="utf-8"))


@pytest.mark.node
def test_the_reducer_and_its_neighbours_hold_their_promises_under_node() -> None:
    node = shutil.which("node") or shutil.which("nodejs") or "node"
    files = sorted(str(path) for path in TESTS.glob("*.test.mjs"))
    run = subprocess.run([node, "--test", *files], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_fixture_is_what_the_server_would_send(case: dict[str, Any]) -> None:
    for event in case["events"]:
        decoded = events.decode(json.dumps(event))
        sent = json.loads(events.frame(decoded, event["turn_id"], event["seq"]).split(b"data: ")[1])
        assert sent == event


def test_the_recorded_stream_is_what_the_server_would_write() -> None:
    expected = b": hello\n"
    for event in [*CASES[0]["events"], *CASES[11]["events"]]:
        expected += (
            events.frame(events.decode(json.dumps(event)), event["turn_id"], event["seq"]) + b": ping\n"
        )
    assert (DATA / "events.sse").read_bytes() == expected
