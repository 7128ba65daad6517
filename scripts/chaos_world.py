"""The processes of a chaos run: a provider that misbehaves, and a server that is killed and started again."""

import ast
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import requests
from chaos_machine import JumpingClock, LimitedDisk, MountedDisk, forget_shared_time

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "chaos-token-of-the-harness"
START_S = 30.0
STOP_S = 20.0

# Every entry of the chain, in order: its name, and the model whose name tells the fake provider what to do.
# "fickle" is the usual one; what it does, request by request, comes from the seed.
ENTRIES = {
    "fickle": "fickle",
    "steady": "normal?tokens=12&delay_s=0.005",
    "slow": "slow?tokens=70&delay_s=0.05",
    "flood": "normal?tokens=3000",
    "length": "length",
    "cut": "cut?tokens=6&delay_s=0.02",
    "reset": "reset?tokens=6&delay_s=0.02",
    "garbage": "garbage?tokens=6",
    "error": "error?tokens=4",
    "empty": "empty",
    "hang": "hang",
    "stalls": "hang?tokens=5",
    "broken": "broken",
    "overloaded": "overloaded",
    "refused": "bad-request",
    "thinks": "normal?reasoning=10&tokens=10&delay_s=0.02",
    "tool": "tool?tokens=4&delay_s=0.01",
    "writes": 'tool?tools=[{"name":"write_file","arguments":{"path":"a.txt","content":"x"}}]',
}
PERMISSION_S = 3.0
CEILING_S = 60.0
SILENCE_S = 1.5
SETTINGS = f"""
[turn]
permission_s = {PERMISSION_S:g}
ceiling_s = {CEILING_S:g}

[stream]
heartbeat_s = 2
"""
ENTRY = """
[[providers]]
name = "{name}"
driver = "openai"
base_url = "{url}"
model = '{model}'
idle_timeout_s = {silence:g}
connect_timeout_s = 3
"""


class Provider:
    """The fake provider, as a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.provider"],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().rpartition(" ")[2].strip()

    def order(self, model: str, behaviours: list[dict[str, object]]) -> None:
        """What the model does, one behaviour a request."""
        control = self.url.removesuffix("/v1") + "/control"
        answer = requests.post(control, json={"model": model, "behaviours": behaviours}, timeout=10)
        answer.raise_for_status()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Server:
    """`timothy serve` on a disk, a clock and a port of its own. `kills` are the moments at which it died."""

    def __init__(self, disk: MountedDisk | LimitedDisk, clock: JumpingClock, provider_url: str) -> None:
        self._disk = disk
        self._clock = clock
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.kills: list[float] = []
        self.said: deque[str] = deque(maxlen=400)
        self._process: subprocess.Popen[str] | None = None
        same = {"url": provider_url, "silence": SILENCE_S}
        entries = (ENTRY.format(name=n, model=m, **same) for n, m in ENTRIES.items())
        (disk.home / "timothy.toml").write_text(SETTINGS + "".join(entries), encoding="utf-8")

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, crash_at: str | None = None) -> None:
        """Start it and wait until it answers; with `crash_at`, it kills itself at that step of a turn."""
        more = self._clock.environment()
        if crash_at:
            more["TIMOTHY_CRASH_AT"] = crash_at
        self._process = subprocess.Popen(
            [*_program(), "serve", "--port", str(self.port), "--home", str(self._disk.home)],
            cwd=ROOT,
            env=environment(TIMOTHY_API_TOKEN=TOKEN, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        self._wait_until_it_answers()

    def kill(self) -> None:
        """SIGKILL, now."""
        assert self._process is not None
        self.kills.append(time.time())
        self._process.kill()
        self._waited(None)

    def buried(self) -> int:
        """Note the death of a process that died by itself; its exit status, negative for a signal."""
        assert self._process is not None
        self.kills.append(time.time())
        return self._waited(None)

    def stop(self) -> int:
        """SIGTERM, and the exit status. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._waited(STOP_S)

    def fill_disk(self, room: int) -> None:
        """From now on the server finds `room` bytes for what it has to keep."""
        assert self._process is not None
        self._disk.fill(room, self._process.pid)

    def free_disk(self) -> None:
        """There is room again."""
        assert self._process is not None
        self._disk.free(self._process.pid)

    def _waited(self, limit: float | None) -> int:
        assert self._process is not None
        status = self._process.wait(limit)
        forget_shared_time(self._process.pid)
        return status

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout:
            self.said.extend(process.stdout)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.alive:
            try:
                if requests.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except requests.RequestException:
                time.sleep(0.02)
        raise RuntimeError("the server does not start; its last words:\n" + "".join(self.said))


def steps() -> tuple[str, ...]:
    """The named steps of a turn at which the server can be told to die, read from its source."""
    for node in ast.parse((ROOT / "actors" / "crash.py").read_bytes()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STEPS":
            return tuple(ast.literal_eval(node.value))
    raise RuntimeError("actors/crash.py names no STEPS")


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with this checkout before whatever else is installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


def _program() -> list[str]:
    beside = Path(sys.executable).with_name("timothy")
    if not beside.exists():
        sys.exit(f"{beside} is missing: install the checkout into this Python first")
    return [str(beside)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
