"""The system's sandbox, bubblewrap: a command in it sees programs and the workspace, no network, no home."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from timothy.permissions import protected

INSIDE = "/workspace"
MAX_MASKED = 200
_SCRATCH_BYTES = 256 * 1024 * 1024
_SETTINGS = """
    alternatives ca-certificates ca-certificates.conf fonts group java ld.so.cache ld.so.conf ld.so.conf.d
    localtime mime.types nsswitch.conf passwd pki profile ssl/certs ssl/openssl.cnf terminfo
"""

_known: dict[str, bool] = {}
_lock = threading.Lock()


def available() -> bool:
    """True when bubblewrap is installed and allowed to work here; found out once."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    with _lock:
        if program not in _known:
            probe = [*_frame(program), "--", "/bin/sh", "-c", "exit 0"]
            _known[program] = (
                subprocess.run(probe, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
            )
        return _known[program]


def wrapped(argv: list[str], workspace: Path, folder: str) -> list[str]:
    """`argv` inside the sandbox, in `folder` of the workspace, whose secrets cannot be seen there.

    Raises ValueError when there are too many secrets to hide.
    """
    hidden = [step for path in _secrets(workspace) for step in _mask(path, workspace)]
    inside = f"{INSIDE}/{folder}".rstrip("/.") if folder in ("", ".") else f"{INSIDE}/{folder}"
    here = ["--bind", str(workspace), INSIDE, *hidden, "--chdir", inside]
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
    return [*arguments, "--proc", "/proc", "--dev", "/dev", "--size", str(_SCRATCH_BYTES), "--tmpfs", "/tmp"]


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
    return ["--tmpfs", inside] if os.path.isdir(path) else ["--ro-bind", "/dev/null", inside]
