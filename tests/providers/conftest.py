"""What tests of drivers share: peers that are closed at the end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.providers.peer import Peer


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    """Starts a provider made of raw bytes."""
    peers: list[Peer] = []

    def start(*answers: list[Any], **options: Any) -> Peer:
        peers.append(Peer(*answers, **options))
        return peers[-1]

    yield start
    for started in peers:
        started.close()
