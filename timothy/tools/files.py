"""The workspace folder, entered step by step: no symbolic link, no `..`, nothing outside, whatever races."""

import errno
import fcntl
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from timothy.permissions import protected
from timothy.text import honest
from timothy.tools.base import ToolError

MAX_PATH = 1_000
# what shows nothing, what turns the reading direction, what is no text, and the other system's slash
_UNFIT = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffd\\]")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# without O_NONBLOCK the opening of a named pipe would wait for a writer for ever
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(msgspec.Struct, frozen=True):
    """One thing in a folder: `kind` is `file`, `folder`, `link` or `other`; `size` in bytes, of files."""

    path: str
    kind: str
    size: int


def parts(path: str) -> list[str]:
    """The names that lead from the workspace to `path`. Raises ToolError when they may lead out of it."""
    if len(path) > MAX_PATH:
        raise ToolError(f"the path is longer than {MAX_PATH} characters")
    if _UNFIT.search(path):
        raise ToolError(f"the path {path!r} holds characters that are not allowed")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith(("/", "~")) or (names and names[0][1:2] == ":"):
        raise ToolError(
            f"{path!r} is outside the workspace: give a path relative to it, such as notes/today.txt"
        )
    if ".." in names:
        raise ToolError(f"{path!r} is refused: `..` may lead out of the workspace")
    return names


def unfit(path: str) -> str | None:
    """Why `path` is refused whatever is there, in words; None when it may be in the workspace."""
    try:
        parts(path)
    except ToolError as error:
        return str(error)
    return None


@contextmanager
def folder(root: Path, path: str, *, make: bool = False) -> Iterator[int]:
    """A file descriptor of the folder `path`; `make` creates what is missing. Raises ToolError."""
    with _told(path):
        here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in parts(path):
                here = _step(here, name, make)
            yield here
        finally:
            os.close(here)


@contextmanager
def opened(root: Path, path: str, *, write: bool = False, make: bool = False) -> Iterator[tuple[int, str]]:
    """A file descriptor of the folder of `path`, and its last name. Raises ToolError, for secrets too."""
    names = parts(path)
    if not names:
        raise ToolError("the path names the workspace itself, not a file in it")
    refusal = protected("/".join(names), write=write)
    if refusal:
        raise ToolError(f"refused: {refusal}")
    with folder(root, "/".join(names[:-1]), make=make) as here, _told(path):
        yield here, names[-1]


def read(root: Path, path: str, most: int) -> bytes:
    """The whole content of a file of at most `most` bytes. Raises ToolError."""
    with opened(root, path) as (here, name), plain(here, name) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ToolError(f"{path} is larger than {most} bytes")
    return data


@contextmanager
def plain(here: int, name: str) -> Iterator[BinaryIO]:
    """The file `name` in the folder `here`, which must be a regular one, open for reading."""
    descriptor = os.open(name, _READ, dir_fd=here)
    with open(descriptor, "rb") as file:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise ToolError(f"{name} is a folder")
        if not stat.S_ISREG(kind):
            raise ToolError(f"{name} is no regular file")
        yield file


def write(root: Path, path: str, data: bytes) -> bool:
    """Put `data` at `path`, whole or not at all; True when there was a file before. Raises ToolError."""
    with opened(root, path, write=True, make=True) as (here, name), alone(here):
        return replace(here, name, data)


@contextmanager
def alone(here: int) -> Iterator[None]:
    """One at a time in the folder `here`: two edits of one file do not lose each other."""
    fcntl.flock(here, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(here, fcntl.LOCK_UN)


def replace(here: int, name: str, data: bytes) -> bool:
    """Swap the file `name` in the folder `here` for `data` in one step; a link there is never followed."""
    mode = _mode(here, name)
    beside = f".{uuid.uuid4().hex}.part"
    try:
        with open(os.open(beside, _CREATE, 0o644 if mode is None else mode, dir_fd=here), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, name, src_dir_fd=here, dst_dir_fd=here)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=here)
        raise
    return mode is not None


def text(data: bytes, path: str) -> str:
    """The text in `data`, UTF-8. Raises ToolError when it is none."""
    if b"\0" in data[:8192]:
        raise ToolError(f"{path} is no text file")
    return data.decode("utf-8", "replace")


def exact_text(data: bytes, path: str) -> str:
    """The text in `data`, from which `encoded()` makes the same bytes again. Raises ToolError."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8: a change would damage the rest of it") from error


def encoded(text: str) -> bytes:
    """`text` as UTF-8; what that cannot hold is repaired."""
    return honest(text).encode()


def folder_of(path: str) -> str:
    """The folder that the file `path` is in, for a grant: `.` is the workspace itself."""
    return "/".join([part for part in path.split("/") if part not in ("", ".")][:-1]) or "."


def entries(root: Path, path: str) -> Iterator[Entry]:
    """What is in the folder `path`, by name. Raises ToolError."""
    with folder(root, path) as here, os.scandir(here) as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            where = "/".join([*parts(path), entry.name])
            if entry.is_symlink():
                yield Entry(where, "link", 0)
            elif entry.is_dir(follow_symlinks=False):
                yield Entry(where, "folder", 0)
            else:
                with suppress(FileNotFoundError):  # deleted since
                    about = entry.stat(follow_symlinks=False)
                    yield Entry(where, "file" if stat.S_ISREG(about.st_mode) else "other", about.st_size)


def walk(root: Path, path: str, deepest: int = 64) -> Iterator[Entry]:
    """Everything below the folder `path`, depth first; what vanishes meanwhile is left out."""
    for entry in list(entries(root, path)):
        yield entry
        if entry.kind == "folder" and deepest > 1:
            with suppress(ToolError):  # vanished, swapped for a link, or not ours to read
                yield from walk(root, entry.path, deepest - 1)


def _step(here: int, name: str, make: bool) -> int:
    """The folder `name` in the folder `here`, which is closed."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=here)
    below = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return below


def _mode(here: int, name: str) -> int | None:
    """The rights of the regular file `name`, None when there is nothing. Raises ToolError for others."""
    try:
        about = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(about.st_mode):
        raise ToolError(f"{name} exists and is no regular file")
    return stat.S_IMODE(about.st_mode) & 0o777


@contextmanager
def _told(path: str) -> Iterator[None]:
    """The system's refusals, in words for the model."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ToolError(f"the path {path!r} holds characters that are not allowed") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(
                f"{path}: a part of it is a symbolic link, or no folder, and is not followed"
            ) from error
        raise ToolError(f"{path}: {error.strerror}") from error
