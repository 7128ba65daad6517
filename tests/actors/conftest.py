"""A house per test, and no actor left behind."""

import logging

import pykka
import pytest

from tests.actors.play import House, eventually


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path / "home")
    yield house
    house.close()


@pytest.fixture(autouse=True)
def no_actor_is_left_behind():
    yield
    eventually(lambda: pykka.ActorRegistry.get_all() == [] or pykka.ActorRegistry.stop_all(timeout=5) is None)


@pytest.fixture(autouse=True)
def quiet():
    """Actors die here on purpose, and say so at length."""
    logging.getLogger("pykka").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("pykka").setLevel(logging.NOTSET)
