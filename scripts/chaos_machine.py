"""The machine under a chaos run: a small disk that can be filled, and a clock that jumps."""

import contextlib
import ctypes
import errno
import itertools
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

SIZE_MB = 256
JUMP_S = 2 * 3600.0
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))  # where Debian has it
_CLONE_NEWNS = 0x00020000  # unshare(2)


class MountedDisk:
    """A file system of its own, in memory. This process and its children alone see it; it goes with them."""

    kind = f"a tmpfs of {SIZE_MB} MB"

    def __init__(self, folder: Path) -> None:
        """Raises OSError where that is not allowed."""
        self._mount = folder / "disk"
        self._mount.mkdir()
        _leave_the_machines_mounts()
        _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=700", "tmpfs", str(self._mount))
        self.home = self._mount / "home"
        self.home.mkdir()
        self._filler = self._mount / "filler"
        self._kept = folder / "home"

    def fill(self, room: int, process_id: int) -> None:
        """Leave `room` bytes free."""
        with self._filler.open("wb") as filler:
            while (free := self._free() - room) > 0:
                try:
                    os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, free)
                except OSError as error:
                    if error.errno != errno.ENOSPC:  # the server was faster: look again
                        raise

    def free(self, process_id: int) -> None:
        """Give back what `fill` took."""
        self._filler.unlink()

    def close(self) -> None:
        """Unmount it; what the home held is beside it then."""
        shutil.copytree(self.home, self._kept)
        _run("umount", "--lazy", str(self._mount))

    def _free(self) -> int:
        room = os.statvfs(self._mount)
        return room.f_bavail * room.f_frsize


class LimitedDisk:
    """A folder in which the server's files cannot grow any more, where nothing may be mounted."""

    kind = "a limit of the files' size"

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()

    def fill(self, room: int, process_id: int) -> None:
        """From now on no file can grow beyond the largest one's size now plus `room` bytes."""
        self._limit(process_id, max(path.stat().st_size for path in self.home.iterdir()) + room)

    def free(self, process_id: int) -> None:
        """Files may grow again."""
        self._limit(process_id, resource.RLIM_INFINITY)

    def close(self) -> None:
        """Nothing is left to undo."""

    def _limit(self, process_id: int, size: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # the limit goes with the process
            resource.prlimit(process_id, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def small_disk(folder: Path) -> MountedDisk | LimitedDisk:
    """A disk for the server's home, mounted where root may do that. Call it before any thread starts."""
    if os.geteuid() == 0:
        try:
            return MountedDisk(folder)
        except OSError as error:
            print(f"chaos: nothing can be mounted here ({error})")
    return LimitedDisk(folder)


def _leave_the_machines_mounts() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    _run("mount", "--make-rprivate", "/")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(errno.EPERM, f"{' '.join(command)}: {done.stderr.strip()}")


class JumpingClock:
    """The time of day as the server sees it: two hours forward, back, two hours behind, and back.

    `jumps` are (when, how many seconds the server's clock is ahead from then on). Seconds that only grow
    are left alone. Without Debian's libfaketime it never jumps.
    """

    def __init__(self, folder: Path) -> None:
        self.jumps: list[tuple[float, float]] = []
        self.can_jump = bool(LIBRARIES)
        self._file = folder / "clock"
        self._offsets = itertools.cycle([JUMP_S, 0.0, -JUMP_S, 0.0])
        self._set(0.0)

    def environment(self) -> dict[str, str]:
        """What a process must be started with, to see this clock."""
        if not self.can_jump:
            return {}
        return {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else a thread that waits for Python's lock spins
            "NO_FAKE_STAT": "1",
        }

    def jump(self) -> None:
        """The next jump, at once for every process that sees this clock."""
        offset = next(self._offsets)
        self._set(offset)
        self.jumps.append((time.time(), offset))

    def _set(self, offset: float) -> None:
        """In one step: a half-written file would be read."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset:+.0f}\n", encoding="ascii")
        new.replace(self._file)


def forget_shared_time(process_id: int) -> None:
    """Remove what the library shares in memory for a process that was killed."""
    for left in Path("/dev/shm").glob(f"*faketime_s[he]m_{process_id}"):
        left.unlink(missing_ok=True)
