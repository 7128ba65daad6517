"""Runs one command under limits, and kills all of it when it ends, time is up, or the socket closes.

Started by its path with a socket as standard input and output, and no other ties: the first line it gets is
a `Task` in JSON, its one answer is a `Report` in JSON. The socket is the lifeline: its end, by a cancel or
by the server's death, is the end of the command with everything that it started, also what left its group.
Standard library only, so that it starts fast.
"""

import base64
import contextlib
import ctypes
import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
STARTED_NOT = 127
KILL_S = 5.0
STOP_S = 2.0
LOOK_S = 0.25
LOOK_SHARE = 0.05
"""So much of its time this program may spend on looking at what the command started."""
THREADS = 4
"""So many threads a process may have, on the average, where the system counts them together."""
PAGE = resource.getpagesize()
CHUNK = 65536


def main() -> None:
    """One task, one report; silence when the lifeline broke."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the process group must do
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    task = json.loads(_line())
    report = Run(task).report()
    if report is not None:
        with contextlib.suppress(OSError):  # nobody listens any more
            _send(json.dumps(report).encode())


def _line() -> bytes:
    """The task: everything up to the newline, which is the last byte sent."""
    pieces = bytearray()
    while not pieces.endswith(b"\n"):
        piece = os.read(0, CHUNK)
        if not piece:
            sys.exit(0)
        pieces += piece
    return bytes(pieces)


def _send(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


class Run:
    """One command from its start to the death of its last process."""

    def __init__(self, task: dict) -> None:  # type: ignore[type-arg]  # JSON
        self._task = task
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._status: int | None = None
        self._deadline = time.monotonic() + task["time_s"]
        self._look_at = 0.0
        self._news, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake the wait below

    def report(self) -> dict | None:  # type: ignore[type-arg]  # JSON
        """How it ended, `reason` as `_follow` says it; None when the lifeline broke."""
        output, write_end = os.pipe()
        child = self._start(write_end)
        os.close(write_end)
        try:
            reason = self._follow(output, child)
        finally:
            self._status = kill_all(child, self._status)
        if reason == "gone":
            return None
        return {
            "reason": reason,
            "exit": None if self._status is None else os.waitstatus_to_exitcode(self._status),
            "output": base64.b64encode(bytes(self._head + self._tail)).decode(),
            "head": len(self._head),
            "total": self._total,
        }

    def _start(self, write_end: int) -> int:
        read_in = self._input()
        child = os.fork()
        if child:
            os.close(read_in)
            return child
        try:
            self._become(read_in, write_end)
        except BaseException as error:  # noqa: BLE001  the copy of this program must not live on
            os.write(2, f"cannot start {self._task['argv'][0]}: {error}\n".encode())
        os._exit(STARTED_NOT)

    def _input(self) -> int:
        data = base64.b64decode(self._task["input"])
        if not data:
            return os.open(os.devnull, os.O_RDONLY)
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            return os.dup(file.fileno())

    def _become(self, read_in: int, write_end: int) -> None:
        os.dup2(read_in, 0)
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        os.closerange(3, 256)
        os.setsid()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        enter(self._task["root"], self._task["folder"])
        self._limit()
        os.execvpe(self._task["argv"][0], self._task["argv"], self._task["env"])

    def _limit(self) -> None:
        """Bound what one process may take; memory that is reserved and not used is cheap."""
        memory = self._task["memory"]
        wanted = (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, memory),
            (resource.RLIMIT_AS, memory * self._task["reserve"]),
            (resource.RLIMIT_FSIZE, self._task["file_bytes"]),
            (resource.RLIMIT_CPU, int(self._task["time_s"]) + 5),
            *self._of_processes(),
        )
        for what, most in wanted:
            _, hard = resource.getrlimit(what)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(ValueError, OSError):  # a limit that this system does not know
                resource.setrlimit(what, (most, most))

    def _of_processes(self) -> list[tuple[int, int]]:
        # the system counts all that the user runs, and not at all what root runs: `_excess` looks besides
        most = self._task["processes"]
        return [(resource.RLIMIT_NPROC, tasks_of_user() + THREADS * most)] if most else []

    def _follow(self, output: int, child: int) -> str:
        """Collect the output until an end comes: `exit`, `time`, `gone` for the lifeline, or `_excess`."""
        sources = [0, self._news, output]
        patience = LOOK_S if self._task["processes"] else math.inf
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                return "time"
            ready, _, _ = select.select(sources, [], [], min(left, patience))
            if 0 in ready and not os.read(0, CHUNK):
                return "gone"
            if self._news in ready:
                os.read(self._news, CHUNK)
            if output in ready and not self._take(output):
                sources.remove(output)  # closed: the command is over, or goes on in silence
            if self._ended(child):
                self._take_rest(output)
                return "exit"
            if excess := self._excess():
                return excess

    def _excess(self) -> str:
        """What the command, with all that it started, has too much of: `output`, `processes`, `memory`."""
        if self._total > self._task["most_output"]:
            return "output"
        began = time.monotonic()
        if began < self._look_at or not self._task["processes"]:
            return ""
        tree = descendants()
        now = time.monotonic()
        self._look_at = now + max(LOOK_S, (now - began) / LOOK_SHARE)
        if len(tree) > self._task["processes"]:
            return "processes"
        return "memory" if memory_of(tree) > self._task["whole_memory"] else ""

    def _ended(self, child: int) -> bool:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            self._status = status
        return bool(ended)

    def _take_rest(self, output: int) -> None:
        """What the command left in the pipe; not what others go on to write."""
        for _ in range(64):
            if not select.select([output], [], [], 0)[0] or not self._take(output):
                return

    def _take(self, output: int) -> bool:
        piece = os.read(output, CHUNK)
        self._total += len(piece)
        room = self._task["kept_output"] // 2
        fits = room - len(self._head)
        self._head += piece[:fits]
        self._tail += piece[fits:]
        del self._tail[:-room]
        return bool(piece)


def enter(root: str, folder: str) -> None:
    """Change into `folder` below `root`, step by step, through no symbolic link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in [part for part in folder.split("/") if part not in ("", ".")]:
        if part == "..":
            raise OSError("the folder leaves the workspace")
        here = os.open(part, flags, dir_fd=here)
    os.fchdir(here)


def kill_all(child: int, status: int | None) -> int | None:
    """Kill the command and all that descends from it; the command's own status, where it is known."""
    _stop_all()
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        for process in [*descendants(), -child]:
            with contextlib.suppress(OSError):  # it was faster
                os.kill(process, signal.SIGKILL)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = ended[1] if ended[0] == child else status
        except ChildProcessError:
            return status
        time.sleep(0.005)
    return status


def _stop_all() -> None:
    """Let nothing of it start anything more: what goes on forking while others are killed may outrun that."""
    stopped: set[int] = set()
    deadline = time.monotonic() + STOP_S
    while (fresh := {*descendants()} - stopped) and time.monotonic() < deadline:
        for process in fresh:
            with contextlib.suppress(OSError):  # it was faster
                os.kill(process, signal.SIGSTOP)
        stopped |= fresh


def descendants() -> list[int]:
    """All processes below this one, by /proc; without it, none."""
    parents: dict[int, list[int]] = {}
    for process, fields in _stats():
        parents.setdefault(int(fields[1]), []).append(process)  # proc_pid_stat(5): ppid is the 4th
    found, unseen = list[int](), [os.getpid()]
    while unseen:
        below = parents.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def memory_of(processes: list[int]) -> int:
    """The bytes of memory that these processes hold, but for files that they only look into."""
    pages = 0
    for process in processes:
        with contextlib.suppress(OSError), open(f"/proc/{process}/statm", "rb") as file:  # it may be gone
            _, resident, shared, *_ = map(int, file.read().split())  # proc_pid_statm(5)
            pages += resident - shared
    return pages * PAGE


def tasks_of_user() -> int:
    """How many threads this user runs now."""
    own = os.getuid()
    return sum(int(fields[17]) for process, fields in _stats(own))  # num_threads is the 20th


def _stats(user: int | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Each process with the fields of its stat from the 3rd on; only those of `user`, if one is given."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # it may be gone
                if user is None or os.fstat(file.fileno()).st_uid == user:
                    yield int(name), file.read().rpartition(b")")[2].split()


if __name__ == "__main__":
    main()
