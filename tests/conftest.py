"""What every test can count on: its world, the programs it needs, and the embedded model's weights."""

import fcntl
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from gevent import monkey
from hypothesis import settings

from timothy.model import fetch, installed

ROOT = Path(__file__).resolve().parent.parent
WORLD = "gevent" if monkey.is_module_patched("threading") else "threads"
MARKERS = {
    "once": "runs in the world of plain threads only: it starts processes that choose their own world, or is"
    " about code without threads, sockets, locks and timers, which is the same in both",
    "browser": "needs Chromium; runs once",
    "node": "needs Node; runs once",
}
PROGRAMS = {
    "browser": ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
    "node": ("node", "nodejs"),
}


# No deadline: a slow machine is no wrong answer. A failure is the same in every run.
settings.register_profile("timothy", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("timothy")


def pytest_configure(config: pytest.Config) -> None:
    expected = os.environ.get("TIMOTHY_WORLD", WORLD)
    if expected != WORLD:
        raise pytest.UsageError(f"TIMOTHY_WORLD is {expected}, but this process is in the world of {WORLD}")
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = os.environ.get("TIMOTHY_TESTS")  # scripts/test runs those of the page by themselves
    wanted = [item for item in items if _runs(item, part)]
    unwanted = set(items) - set(wanted)
    if unwanted:
        config.hook.pytest_deselected(items=[item for item in items if item in unwanted])
        items[:] = wanted


def _runs(item: pytest.Item, part: str | None) -> bool:
    marks = {name for name in MARKERS if item.get_closest_marker(name)}
    if WORLD == "gevent" and marks:
        return False
    return part is None or ("browser" in marks) == (part == "browser")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, programs in PROGRAMS.items():
        if item.get_closest_marker(marker) and not any(map(shutil.which, programs)):
            missing(f"{programs[0]} is not installed")


def missing(what: str) -> NoReturn:
    """Skip the running test and say why; where CI=true, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def world() -> str:
    """The world this process runs in: "threads" or "gevent"."""
    return WORLD


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium, for tests marked `browser`."""
    return next(filter(None, map(shutil.which, PROGRAMS["browser"])))


@pytest.fixture(scope="session")
def weights() -> Path:
    """The embedded model's file, fetched once per checkout."""
    if installed.engine() is None:
        missing("the embedded model's engine is not installed")
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("w") as lock:  # both worlds run at the same time: one of them fetches
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch.fetch(cache)


@pytest.fixture
def embedded_home(tmp_path: Path, weights: Path) -> Path:
    """A home of its own with the embedded model's weights in it."""
    home = tmp_path / "home"
    installed.folder(home).mkdir(parents=True)
    installed.weights(home).symlink_to(weights)
    return home
