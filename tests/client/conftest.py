"""A server that speaks the contract as told, and a client that does not wait long between its tries."""

from collections.abc import Iterator

import pytest

from tests.client.contract_server import ContractServer, serving
from timothy.client import Client


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with serving() as running:
        yield running


@pytest.fixture
def client(server: ContractServer) -> Client:
    return Client(server.url, "secret", silence=2, first_delay=0.01)
