"""Runs a command so that nothing of it outlives its call, its limits, or the server."""

import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec

import timothy
from timothy.cancel import Cancel
from timothy.text import to_json
from timothy.tools.base import ToolError
from timothy.tools.children import launcher

GRACE_S = 10.0
_MEGABYTE = 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """What a command may take: seconds, and bytes of memory, of one file, of output (kept, and at most).

    `memory` is one process's, `whole_memory` that of all together, of which there may be `processes`;
    where that is 0, nobody counts them, nor what they take together.
    """

    time_s: float = 30
    memory: int = 1024 * _MEGABYTE
    file_bytes: int = 256 * _MEGABYTE
    kept_output: int = 512 * 1024
    most_output: int = 64 * _MEGABYTE
    reserve: int = 32
    processes: int = 512
    whole_memory: int = 4096 * _MEGABYTE


class Outcome(msgspec.Struct, frozen=True):
    """How a command ended: `reason` is `exit`, `time`, `output`, `processes` or `memory`, the last three
    when it took too much; `exit` below 0 is a signal.

    `output` holds its standard output and error as they came, `head` and the last bytes of `total`.
    """

    reason: str
    exit: int | None
    output: bytes
    head: int
    total: int

    @property
    def cut(self) -> int:
        """How many bytes of output are missing in the middle."""
        return self.total - len(self.output)

    @property
    def text(self) -> str:
        """The output as text, and in its middle how much was cut."""
        if not self.cut:
            return self.output.decode("utf-8", "replace")
        head = self.output[: self.head].decode("utf-8", "replace")
        tail = self.output[self.head :].decode("utf-8", "replace")
        return f"{head}\n... cut {self.cut} bytes ...\n{tail}"


USUAL = Limits()


def environment(**more: str) -> dict[str, str]:
    """A small environment: what programs need to run, and nothing that the server knows."""
    keep = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT")
    kept = {name: os.environ[name] for name in keep if name in os.environ}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONUNBUFFERED": "1", **kept, **more}


def run(
    argv: Sequence[str],
    cancel: Cancel,
    *,
    root: Path,
    folder: str = "",
    env: Mapping[str, str] | None = None,
    limits: Limits = USUAL,
    input: bytes = b"",
) -> Outcome:
    """Run `argv` in `folder` of `root` until it ends; then none of its processes is left.

    Raises ToolError after a cancel, and when the command's supervisor itself broke.
    """
    if cancel.cancelled:
        raise ToolError("cancelled before it started")
    with closing(Supervised(argv, root=root, folder=folder, env=env, limits=limits, input=input)) as command:
        report = command.report(cancel, limits.time_s + GRACE_S)
    if cancel.cancelled:
        raise ToolError("cancelled")
    if report is None:
        raise ToolError("the command's supervisor was killed")
    return report


class Supervised:
    """A command that runs beside its caller until it ends, `close()`, or the death of this process."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        root: Path,
        folder: str = "",
        env: Mapping[str, str] | None = None,
        limits: Limits = USUAL,
        input: bytes = b"",
    ) -> None:
        self._task = {
            **msgspec.to_builtins(limits),
            "argv": list(argv),
            "root": str(root),
            "folder": folder,
            "env": dict(environment() if env is None else env),
            "input": base64.b64encode(input).decode(),
        }
        with ExitStack() as undo:
            self._lifeline, theirs = map(undo.enter_context, socket.socketpair())
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", launcher.__file__],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env=environment(),  # a command may read its parent's
                start_new_session=True,
            )
            undo.pop_all()
        theirs.close()

    @property
    def running(self) -> bool:
        """False once all of it has ended."""
        return self._process.poll() is None

    def begin(self) -> None:
        """Let the command start; `report()` does it too."""
        if self._task:
            task, self._task = self._task, {}
            with contextlib.suppress(OSError):  # cut already: there will be no report
                self._lifeline.sendall(to_json(task) + b"\n")

    def report(self, cancel: Cancel, patience_s: float) -> Outcome | None:
        """Wait for the end; None when a cancel, impatience, or the supervisor's death came first."""
        self._lifeline.settimeout(patience_s)
        cancel.attach(self._lifeline)
        try:
            self.begin()
            return msgspec.json.decode(self._answer(), type=Outcome)
        except msgspec.MsgspecError:
            return None
        finally:
            cancel.detach()

    def close(self) -> None:
        """Cut the lifeline; on return the command and all that it started are dead."""
        with self._lifeline, contextlib.suppress(OSError):  # the other side was faster
            self._lifeline.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answer(self) -> bytes:
        pieces = bytearray()
        with contextlib.suppress(OSError):  # cut by a cancel, or the supervisor is gone
            while piece := self._lifeline.recv(65536):
                pieces += piece
        return bytes(pieces)


def ask_child(name: str, request: Any, cancel: Cancel, limits: Limits) -> Any:
    """What `timothy.tools.children.NAME` answers to `request`, both JSON, in a process of its own.

    Raises ToolError with the child's own words (`{"error": TEXT}`), or with how it ended without an answer.
    """
    outcome = run(
        [sys.executable, "-m", f"timothy.tools.children.{name}"],
        cancel,
        root=Path("/"),
        env=environment(PYTHONPATH=str(Path(timothy.__file__).parent.parent)),
        limits=limits,
        input=to_json(request),
    )
    if outcome.reason == "time":
        raise ToolError(f"gave up after {limits.time_s:g} s")
    try:
        answer = msgspec.json.decode(outcome.output)
    except msgspec.MsgspecError as error:
        raise ToolError(f"failed (exit status {outcome.exit}): {outcome.text[-500:]}") from error
    if "error" in answer:
        raise ToolError(answer["error"])
    return answer
