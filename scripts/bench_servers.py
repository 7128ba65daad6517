"""The processes of a benchmark: the provider, the floor and the product, each with its processor time."""

import json
import os
import re
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Protocol

import bench_client
from bench_client import Ask

SCRIPTS = Path(__file__).resolve().parent
TOKEN = "a-token-for-the-benchmark"
ENTRY = '[[providers]]\nname = "{name}"\ndriver = "openai"\nbase_url = "{url}"\nmodel = "{name}"\n'


class Process:
    """A child process that says where it listens in a line that `pattern` matches; it dies with the block."""

    def __init__(self, command: list[str], pattern: str, variables: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said: deque[str] = deque(maxlen=100)
        self.port = self._listen(pattern)

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def processor_s(self) -> float:
        """The processor time that the process has used, in seconds (proc(5), stat: utime and stime)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _listen(self, pattern: str) -> int:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            if found := re.search(pattern, line):
                threading.Thread(target=self._drain, daemon=True).start()
                return int(found[1])
        raise RuntimeError("a server of the benchmark does not start:\n" + "".join(self._said))

    def _drain(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            self._said.extend(self._process.stdout)


class Server(Protocol):
    """What is measured: a process, and how it is asked for a stream of a model."""

    name: str
    process: Process

    def ask(self, model: str) -> Ask: ...


class Source(Process):
    """The provider."""

    def __init__(self) -> None:
        super().__init__([sys.executable, str(SCRIPTS / "bench_source.py")], r"^(\d+)$")
        self.url = f"http://127.0.0.1:{self.port}/v1"


class Floor:
    """The pipe."""

    name = "floor"

    def __init__(self, source: Source) -> None:
        self.process = Process(
            [sys.executable, str(SCRIPTS / "bench_floor.py"), str(source.port)], r"^(\d+)$"
        )

    def ask(self, model: str) -> Ask:
        """See Server."""
        return Ask(self.process.port, "/stream", _json({"model": model, "messages": [], "stream": True}))


class Product:
    """`timothy serve` on the home `home`, with one provider entry for each of `models`."""

    name = "product"

    def __init__(self, source: Source | None, home: Path, models: tuple[str, ...] = ()) -> None:
        home.mkdir(exist_ok=True)
        entries = [ENTRY.format(name=model, url=source.url if source else "") for model in models]
        (home / "timothy.toml").write_text("\n".join(entries), encoding="utf-8")
        command = [str(program()), "serve", "--port", "0", "--home", str(home)]
        self.process = Process(command, r"listens: http://127\.0\.0\.1:(\d+)/", {"TIMOTHY_API_TOKEN": TOKEN})

    def ask(self, model: str) -> Ask:
        """A send in a new session of its own; see Server."""
        return self.send(self.new_session(), model)

    def new_session(self) -> str:
        """The id of a new session. It has a title, so that no turn makes one."""
        answer = bench_client.call(
            self.process.port, "POST", "/v1/sessions", TOKEN, _json({"title": "benchmark"})
        )
        return str(json.loads(answer.partition(b"\r\n\r\n")[2])["id"])

    def send(self, session_id: str, model: str) -> Ask:
        """A message to `model`."""
        path = f"/v1/sessions/{session_id}/messages"
        return Ask(self.process.port, path, _json({"message": "Go on.", "model": model}), TOKEN)

    def stop(self, session_id: str) -> bytes:
        """Stop the session's turn; the answer."""
        return bench_client.call(
            self.process.port, "POST", f"/v1/sessions/{session_id}/stop", TOKEN, _json({})
        )


def program() -> Path:
    """The installed command; exits when the checkout is not installed into this Python."""
    beside = Path(sys.executable).with_name("timothy")
    if not beside.exists():
        sys.exit(f"{beside} is missing: install the checkout into this Python first")
    return beside


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
