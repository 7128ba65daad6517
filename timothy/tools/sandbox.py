"""The system's sandbox, bubblewrap: a command in it sees programs and the workspace, no network, no home."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from timothy.permissions import protected

INSIDE = "/workspace"
MAX_MASKED = 200
LOOK_S = 20.0
PROBE_S = 5.0
_SCRATCH_BYTES = 256 * 1024 * 1024
_SETTINGS = """
    alternatives ca-certificates ca-certificates.conf fonts group java ld.so.cache ld.so.conf ld.so.conf.d
    localtime mime.types nsswitch.conf passwd pki profile ssl/certs ssl/openssl.cnf terminfo
"""

State = Literal["there", "none", "lost"]


class Watch:
    """Whether the sandbox works, looked up again every now and then: it may come and go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._works = False
        self._worked = False

    def state(self) -> State:
        """As `timothy.tools.sandbox.state`."""
        with self._lock:
            if time.monotonic() >= self._look_at:
                self._works = _works()
                self._worked = self._worked or self._works
                self._look_at = time.monotonic() + LOOK_S
            if self._works:
                return "there"
            return "lost" if self._worked else "none"


_watch = Watch()


def state() -> State:
    """`there` when bubblewrap is installed and allowed to work here, else `none`.

    `lost` once it worked for this server: what people allowed was allowed in the sandbox, and is not to be
    done without it. What is said here is at most `LOOK_S` old.
    """
    return _watch.state()


def _works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    probe = [*_frame(program), "--", "/bin/sh", "-c", "exit 0"]
    try:
        ended = subprocess.run(probe, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_S)
    except (OSError, subprocess.TimeoutExpired):  # gone since, or it hangs
        return False
    return ended.returncode == 0


def wrapped(argv: list[str], workspace: Path, folder: str) -> list[str]:
    """`argv` inside the sandbox, in `folder` of the workspace, whose secrets cannot be seen there.

    Raises ValueError when there are too many secrets to hide.
    """
    hidden = [step for path in _secrets(workspace) for step in _mask(path, workspace)]
    inside = f"{INSIDE}/{folder}".rstrip("/.") if folder in ("", ".") else f"{INSIDE}/{folder}"
    here = ["--bind", str(workspace), INSIDE, *hidden, "--chdir", inside]
    # what is written outside the workspace would be memory that nobody counts
    here += ["--remount-ro", "/", "--remount-ro", "/dev"]
    return [*_frame(shutil.which("bwrap") or "bwrap"), *here, "--setenv", "HOME", INSIDE, "--", *argv]


def _frame(program: str) -> list[str]:
    """Everything but the workspace: namespaces of its own, and the system's programs to read."""
    arguments = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    arguments += ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            arguments += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            arguments += ["--ro-bind", name, name]
    for name in ["/nix/store", *(f"/etc/{name}" for name in _SETTINGS.split())]:
        arguments += ["--ro-bind-try", name, name]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for scratch in ("/tmp", "/dev/shm"):
        arguments += ["--size", str(_SCRATCH_BYTES), "--tmpfs", scratch]
    return arguments


def _secrets(workspace: Path) -> list[str]:
    found = list(_protected(workspace))
    if len(found) > MAX_MASKED:
        raise ValueError(
            f"the workspace holds more than {MAX_MASKED} secrets, too many to hide from a command"
        )
    return found


def _protected(workspace: Path) -> Iterator[str]:
    for number, (folder, folders, names) in enumerate(os.walk(workspace)):
        if number % 20 == 19:
            time.sleep(0)  # lets others run where a loop is shared
        for name in [*folders, *names]:
            if protected(name):
                yield os.path.join(folder, name)
        folders[:] = [name for name in folders if not protected(name)]


def _mask(path: str, workspace: Path) -> list[str]:
    inside = f"{INSIDE}/{Path(path).relative_to(workspace)}"
    if os.path.islink(path):  # leads nowhere in there, as its target is not in the sandbox or hidden itself
        return []
    return (
        ["--tmpfs", inside, "--remount-ro", inside]
        if os.path.isdir(path)
        else ["--ro-bind", "/dev/null", inside]
    )
