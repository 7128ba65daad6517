"""Paths that change between one look and the next: nothing outside the workspace is ever read or written."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tools.waiting import until
from timothy.cancel import Cancel
from timothy.tools import files
from timothy.tools.base import Context, Tool, ToolError

ROUNDS = 400


@pytest.fixture
def outside(context: Context) -> Path:
    folder = context.home / "outside"
    folder.mkdir()
    (folder / "file.txt").write_text("SECRET")
    return folder


SWAPPER = """
import os, shutil, sys
one, other, place = sys.argv[1:]
while True:
    for name in (one, other):
        try:
            os.rename(name, place)
            os.rename(place, name)
        except OSError:  # the tool made a folder there meanwhile
            shutil.rmtree(place, ignore_errors=True)
"""


@contextmanager
def swapping(one: Path, other: Path, place: Path) -> Iterator[None]:
    """`place` is now the one, now the other, by renames of another process, while the block runs."""
    process = subprocess.Popen([sys.executable, "-S", "-c", SWAPPER, str(one), str(other), str(place)])
    try:
        until(lambda: place.is_symlink() or place.exists())
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def attempts(enough: Callable[[], bool]) -> Iterator[None]:
    """Some hundred rounds of a race, and more until `enough`."""
    deadline = time.monotonic() + 20
    rounds = 0
    while rounds < ROUNDS or not enough():
        assert time.monotonic() < deadline, "the race was never won by the harmless side"
        rounds += 1
        yield


def test_a_file_swapped_for_a_link_is_never_read_through(
    context: Context, tools: dict[str, Tool], outside: Path
) -> None:
    root = context.workspace
    (root / "plain").write_text("harmless")
    (root / "link").symlink_to(outside / "file.txt")
    seen = set[str]()
    with swapping(root / "plain", root / "link", root / "file.txt"):
        for _ in attempts(lambda: "harmless" in seen):
            try:
                seen.add(tools["read_file"].run({"path": "file.txt"}, context, Cancel()))
            except ToolError as error:
                seen.add(str(error).partition(":")[0])
    assert "SECRET" not in seen and "harmless" in seen


def test_a_folder_swapped_for_a_link_is_never_entered(
    context: Context, tools: dict[str, Tool], outside: Path
) -> None:
    root = context.workspace
    (root / "plain").mkdir()
    (root / "plain" / "file.txt").write_text("harmless")
    (root / "link").symlink_to(outside, target_is_directory=True)
    seen = set[str]()
    with swapping(root / "plain", root / "link", root / "folder"):
        for _ in attempts(lambda: "harmless" in seen):
            for name, input in (
                ("read_file", {"path": "folder/file.txt"}),
                ("list_files", {"folder": "folder"}),
            ):
                try:
                    seen.add(tools[name].run(input, context, Cancel()))
                except ToolError as error:
                    seen.add(str(error).partition(":")[0])
    assert not any("SECRET" in text for text in seen)
    assert "harmless" in seen


def test_a_write_never_goes_through_a_link_that_appears(
    context: Context, tools: dict[str, Tool], outside: Path
) -> None:
    root = context.workspace
    (root / "plain").mkdir()
    (root / "link").symlink_to(outside, target_is_directory=True)
    written = list[str]()
    with swapping(root / "plain", root / "link", root / "folder"):
        for _ in attempts(lambda: bool(written)):
            try:
                call = {"path": "folder/file.txt", "content": "CHANGED"}
                written.append(tools["write_file"].run(call, context, Cancel()))
            except ToolError:
                continue
    assert [path.name for path in outside.iterdir()] == ["file.txt"]
    assert (outside / "file.txt").read_text() == "SECRET"


def test_a_command_s_folder_swapped_for_a_link_is_never_entered(context: Context, outside: Path) -> None:
    from timothy.tools.children.launcher import enter

    root = context.workspace
    (root / "plain").mkdir()
    (root / "link").symlink_to(outside, target_is_directory=True)
    before = os.getcwd()
    harmless = (root / "plain").stat().st_ino
    entered = set[int]()
    try:
        with swapping(root / "plain", root / "link", root / "folder"):
            for _ in attempts(lambda: bool(entered)):
                try:
                    enter(str(root), "folder")
                    entered.add(os.stat(".").st_ino)
                except OSError:
                    continue
    finally:
        os.chdir(before)
    assert entered == {harmless}


def test_a_reader_never_sees_half_a_file(context: Context, tools: dict[str, Tool]) -> None:
    texts = ["a" * 100_000, "b" * 100_000]
    (context.workspace / "file.txt").write_text(texts[0])
    done = threading.Event()

    def write() -> None:
        for number in range(40):
            tools["write_file"].run({"path": "file.txt", "content": texts[number % 2]}, context, Cancel())
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.wait(0):
        assert tools["read_file"].run({"path": "file.txt"}, context, Cancel()) in texts
    writer.join()
    assert [path.name for path in context.workspace.iterdir()] == ["file.txt"]


def test_parallel_edits_of_one_file_do_not_lose_each_other(context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / "file.txt").write_text("".join(f"<{number}>" for number in range(20)))
    edits = [
        threading.Thread(
            target=tools["edit_file"].run,
            args=({"path": "file.txt", "old": f"<{number}>", "new": f"[{number}]"}, context, Cancel()),
        )
        for number in range(20)
    ]
    for edit in edits:
        edit.start()
    for edit in edits:
        edit.join()
    assert (context.workspace / "file.txt").read_text() == "".join(f"[{number}]" for number in range(20))


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    (context.workspace / "file.txt").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match=r"file\.txt: No space left"):
        files.write(context.workspace, "file.txt", b"new")
    assert {path.name: path.read_text() for path in context.workspace.iterdir()} == {"file.txt": "old"}
