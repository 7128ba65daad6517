"""The model's process as its parent sees it: started on first use, watched, started again after it died."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

import timothy
from timothy.errors import ProviderUnreachable

COMMAND = (sys.executable, "-m", "timothy.model.server")
READY = b"READY "
LAST_WORDS = 4
# Where `-m timothy...` is found, whatever folder the server was started in.
_PLACE = Path(timothy.__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model that answers: OpenAI's wire at `base_url` with `key`; `tools`: it can be offered some."""

    base_url: str
    key: str
    tools: bool


class Child:
    """The one process for one model file. Any number of turns may use it at once."""

    def __init__(self, model: Path, window: int, command: Sequence[str] = COMMAND) -> None:
        self.model = model
        self._window = window
        self._command = command
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._closed = False

    def run(self) -> "Run":
        """The process that loads or serves now; a new one when there is none, or when it died.

        Returns at once. Raises ProviderUnreachable after `close()`, or when no process can be started.
        """
        with self._lock:
            if self._closed:
                raise ProviderUnreachable("the model's process was ended, since the server shuts down")
            if self._run is None or not self._run.alive:
                self._run = Run(self.model, self._window, self._command)
            return self._run

    @property
    def state(self) -> str:
        """In one word: `asleep` before the first use and after a death, `loading`, or `ready`."""
        run = self._run
        if run is None or not run.alive:
            return "asleep"
        return "ready" if run.settled else "loading"

    def close(self) -> None:
        """End the process, and start none again."""
        with self._lock:
            self._closed = True
            if self._run is not None:
                self._run.end()


class Run:
    """One process, from its start to its death."""

    def __init__(self, model: Path, window: int, command: Sequence[str]) -> None:
        self.model = model
        self._key = secrets.token_urlsafe(32)
        self._settled = threading.Event()
        self._endpoint: Endpoint | None = None
        self._died = threading.Event()
        self.failure = ""
        self._words: deque[str] = deque(maxlen=LAST_WORDS)
        self._process = _start(command)
        self._listener = _thread(self._listen)
        _thread(self._watch)
        self._order({"model": str(model), "key": self._key, "window": window})

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def settled(self) -> bool:
        """Whether the loading is over, one way or the other."""
        return self._settled.is_set()

    def endpoint(self, seconds: float = 0) -> Endpoint:
        """Where the model answers, once it is loaded: at most `seconds` from now.

        Raises ProviderUnreachable with the process's last words when it died, or when it is still loading.
        """
        self._settled.wait(seconds)
        if self._endpoint is None:
            raise ProviderUnreachable(self.failure or f"the model {self.model.name} is still loading")
        return self._endpoint

    def died(self, seconds: float) -> bool:
        """Whether the process ends within `seconds` from now; then `failure` holds its last words."""
        return self._died.wait(seconds)

    def end(self) -> None:
        """End the process now: nothing in it is worth saving."""
        self._process.kill()
        self._process.wait()

    def _order(self, order: dict[str, str | int]) -> None:
        assert self._process.stdin is not None
        # A process that died already is noticed where its output ends.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        """Keep the last words of the process, and its pipe empty."""
        assert self._process.stderr is not None
        with self._process.stderr as said:
            for line in said:
                if line.strip():
                    self._words.append(line.decode(errors="replace").strip())

    def _watch(self) -> None:
        """From the first line of the process to its end."""
        assert self._process.stdout is not None
        try:
            with self._process.stdout as said:
                line = said.readline()
                if line.startswith(READY):
                    self._endpoint = _look(int(line.removeprefix(READY)), self._key)
                    self._settled.set()
                said.read()
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            self._words.append(f"{type(error).__name__}: {error}")
            self._process.kill()
        finally:
            self._bury()

    def _bury(self) -> None:
        """Name the death for all who wait, and give the pipes back."""
        status = self._process.wait()
        self._listener.join()
        words = " / ".join(self._words)[-600:]
        self.failure = f"the model's process ended ({_reason(status)})" + (f": {words}" if words else "")
        self._endpoint = None
        self._died.set()
        self._settled.set()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # A thread of the engine that waits for the other ones shall not burn their core.
    variables = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    pipe = subprocess.PIPE
    try:
        # A session of its own: Ctrl-C in the terminal is for the server, which ends this process last.
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=variables, cwd=_PLACE, start_new_session=True
        )
    except OSError as error:
        raise ProviderUnreachable(f"the model's process could not be started: {error}") from error


def _thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True, name="model")
    thread.start()
    return thread


def _look(port: int, key: str) -> Endpoint:
    """Ask the loaded model what it can do (llama.cpp's server, `GET /props`)."""
    root = f"http://127.0.0.1:{port}"
    answer = urllib3.request(
        "GET", f"{root}/props", headers={"Authorization": f"Bearer {key}"}, timeout=10, retries=False
    )
    capabilities = answer.json().get("chat_template_caps") or {}
    return Endpoint(f"{root}/v1", key, bool(capabilities.get("supports_tools")))


def _reason(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
