"""What of the embedded model is on this machine: the engine, the weights, and the file in use."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from timothy.errors import ModelUnavailable

ENGINE = "xllamacpp"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SIZE = 98_362_432
# The first bytes of every GGUF file (ggml's docs/gguf.md, "File Structure").
MAGIC = b"GGUF"


def folder(home: Path) -> Path:
    """Where the home keeps model files."""
    return home / "models"


def weights(home: Path) -> Path:
    """The embedded model's own file, whether it is there or not."""
    return folder(home) / WEIGHTS


def engine() -> str | None:
    """The engine's version, or None when it is not installed."""
    try:
        return version(ENGINE)
    except PackageNotFoundError:
        return None


def chosen(home: Path) -> Path | None:
    """The file that `use` named, or None when nobody chose one."""
    try:
        return Path(_choice(home).read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return None


def in_use(home: Path) -> Path:
    """The model file that answers now. Raises ModelUnavailable when it is not there."""
    picked = chosen(home)
    if picked is None:
        picked = weights(home)
        if not picked.exists():
            raise ModelUnavailable("the embedded model's weights are not on this machine")
    check(picked)
    return picked


def use(home: Path, file: Path) -> Path:
    """Answer with the model in `file` from the next start of the model on; its absolute path.

    Raises ModelUnavailable when there is no such file, or it is no GGUF.
    """
    absolute = Path(os.path.abspath(file))
    check(absolute)
    folder(home).mkdir(parents=True, exist_ok=True)
    with replacing(_choice(home)) as partial:
        partial.write_text(f"{absolute}\n", encoding="utf-8")
    return absolute


def check(file: Path) -> None:
    """Raises ModelUnavailable unless `file` can be read and begins as a GGUF does."""
    try:
        with file.open("rb") as opened:
            start = opened.read(len(MAGIC))
    except OSError as error:
        raise ModelUnavailable(f"the model file {file} cannot be read: {error.strerror}") from error
    if start != MAGIC:
        raise ModelUnavailable(f"{file} is no GGUF file: it begins with {start!r} instead of {MAGIC!r}")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write `target`'s new content to: it takes the old one's place at once, or not at all."""
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as place:
        partial = Path(place) / target.name
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(partial, target)


def _choice(home: Path) -> Path:
    return folder(home) / "in-use"
