"""The main story once with the embedded model for real: sent, left, watched, stopped, and gone on with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stories.server import Server, eventually

pytestmark = pytest.mark.once


@pytest.fixture
def real(world: str, embedded_home: Path) -> Iterator[Server]:
    server = Server(world, embedded_home).start()
    yield server
    assert server.terminate() == 0
    assert "Traceback" not in server.words()


def test_a_turn_on_the_embedded_model_survives_is_watched_and_is_stopped(real: Server) -> None:
    [model] = real.get("/v1/models")["models"]
    assert model["driver"] == "local"
    session = real.session()
    tab = real.send(session, "Tell me about the sea in one sentence.", timeout=60)
    assert tab.until("status", code="loading_model")["message"]
    tab.until("text_delta")
    tab.close()
    watcher = real.live(session, timeout=60).rest()
    assert watcher.end == "done"
    assert watcher.text.startswith(tab.text) and len(watcher.text) > len(tab.text)
    evidence = real.evidence(session, tab.turn_id)
    assert evidence["payload"]["text"] == watcher.text
    assert evidence["payload"]["usage"]["output_tokens"] > 0
    assert evidence["payload"]["model"] == model["id"]

    long = real.send(session, "Count from one to one thousand, in words, without a stop.", timeout=60)
    while len(long.text) < 40:
        long.until("text_delta")
    assert real.stop(session).json()["outcome"] == "stopped"
    assert long.rest().end == "stopped"
    assert real.evidence(session, long.turn_id)["payload"]["text"] == long.text
    assert "loading_model" not in [event.get("code") for event in long.events], "it was loaded once"

    again = real.retry(session, "again", timeout=60)
    again.until("text_delta")
    real.kill()
    real.start()
    left = real.evidence(session, again.turn_id)
    assert left["payload"]["code"] == "interrupted"
    assert real.send(session, "Say hello.", timeout=60).rest().end == "done"
    eventually(lambda: real.read(session)["turn_active"] is False)
