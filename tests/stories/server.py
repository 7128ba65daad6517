"""A real server process on a home of its own, and what a user of its API does with it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import requests

from tests.stories.wire import EVIDENCE, Stream

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"threads": "web.threads", "gevent": "web.serve"}
START_S = 20.0


class Server:
    """`home` outlives the process: `start`, `kill` and `start` again as often as you like."""

    def __init__(self, world: str, home: Path, config: str = "", **environment: str) -> None:
        self.home = home
        self.world = world
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None
        self.url = self.token = ""
        home.mkdir(parents=True, exist_ok=True)
        (home / "timothy.toml").write_text(config)

    def start(self, **environment: str) -> "Server":
        """Start the process, wait until it listens. Raises AssertionError with its words when it does not."""
        variables = {"PYTHONUNBUFFERED": "1", **self.environment, **environment}
        with open(self.home / "stderr", "a") as stderr:
            self.process = subprocess.Popen(
                self._command(), cwd=ROOT, env=os.environ | variables, text=True, stdout=PIPE, stderr=stderr
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"(http://\S+)/#token=(\S+)", line)
        if not found:
            self.kill()
            raise AssertionError(f"the server does not start: {line}{self.words()}")
        self.url, self.token = found.groups()
        return self

    def refused(self, *options: str) -> str:
        """What a start that must fail says, in words: it ends by itself, and serves nothing."""
        command = self._command(*options)
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_S)
        assert ran.returncode != 0 and ran.stdout == "" and "Traceback" not in ran.stderr, ran.stderr
        return ran.stderr

    def _command(self, *options: str) -> list[str]:
        module = MODULES[self.world]
        return [sys.executable, "-m", module, "--port", "0", "--home", str(self.home), *options]

    def words(self) -> str:
        """What the server said on stderr."""
        file = self.home / "stderr"
        return file.read_text() if file.exists() else ""

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def ask_to_end(self) -> None:
        """SIGTERM, unless the process is over; `wait` for its end."""
        self._signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the process to end by itself; its exit status (-9 after a kill)."""
        assert self.process is not None and self.process.stdout is not None
        status = self.process.wait(timeout=START_S)
        self.process.stdout.close()
        return status

    def _end(self, number: signal.Signals) -> int:
        self._signal(number)
        return self.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)

    # --- the API ---------------------------------------------------------------------------------------

    def headers(self, **more: str) -> dict[str, str]:
        """The token, and `more` with underscores for dashes."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return {"Authorization": f"Bearer {self.token}", **named}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        """A call that is no stream."""
        url = self.url + path
        return requests.request(method, url, json=body, headers=self.headers(**headers), timeout=20)

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def session(self, title: str | None = None) -> str:
        """A new session's id."""
        answer = self.call("POST", "/v1/sessions", {"title": title} if title else None)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def send(self, session: str, message: str = "hi", model: str | None = None, **more: Any) -> Stream:
        """Send; the stream as it begins. `more`: headers, and options of Stream."""
        body = {"message": message, **({"model": model} if model else {})}
        return self.stream("POST", f"/v1/sessions/{session}/messages", body, **more)

    def retry(self, session: str, mode: str | None = None, **more: Any) -> Stream:
        """Ask for the last message to be answered again, or for the rest of its answer."""
        body = {"mode": mode} if mode else {}
        return self.stream("POST", f"/v1/sessions/{session}/messages/retry", body, **more)

    def live(self, session: str, after: str | None = None, **more: Any) -> Stream:
        """Watch the running turn."""
        query = f"?after={after}" if after is not None else ""
        return self.stream("GET", f"/v1/sessions/{session}/live{query}", **more)

    def stream(self, method: str, path: str, body: Any = None, **more: Any) -> Stream:
        """Any call, read from a raw socket."""
        options = {name: more.pop(name) for name in ("receive_buffer", "timeout") if name in more}
        data = None if body is None else json.dumps(body).encode()
        return Stream(self.url, method, path, self.headers(**more), data, **options)

    def stop(self, session: str, turn_id: str | None = None) -> requests.Response:
        """Stop the running turn."""
        return self.call("POST", f"/v1/sessions/{session}/stop", {"turn_id": turn_id} if turn_id else None)

    def events(self, session: str) -> list[dict[str, Any]]:
        """The whole raw log."""
        found: list[dict[str, Any]] = []
        while page := self.get(f"/v1/sessions/{session}/events?limit=500&after={len(found)}")["events"]:
            found += page
        return found

    def read(self, session: str) -> dict[str, Any]:
        """The session with its items."""
        return dict(self.get(f"/v1/sessions/{session}"))

    def idle(self, session: str) -> list[dict[str, Any]]:
        """The session's items as soon as no turn runs in it."""
        page = eventually(lambda: (seen := self.read(session)) and not seen["turn_active"] and seen)
        return list(page["items"])

    def turn(self, session: str, turn_id: str) -> dict[str, Any]:
        """One turn with its attempts."""
        return dict(self.get(f"/v1/sessions/{session}/turns/{turn_id}"))

    def evidence(self, session: str, turn_id: str) -> dict[str, Any]:
        """The turn's one evidence row, which is its last; the log around it must be sound."""
        log = self.events(session)
        assert [row["seq"] for row in log] == list(range(1, len(log) + 1))
        rows = [row for row in log if row["turn_id"] == turn_id]
        found = [row for row in rows if row["kind"] in EVIDENCE]
        assert len(found) == 1 and rows[-1] is found[0], rows
        turn = self.turn(session, turn_id)
        assert turn["state"] == "ended" and turn["ended_at"] is not None
        return found[0]


def eventually(fact: Callable[[], Any], timeout: float = 5.0) -> Any:
    """The first true value of `fact`. Raises AssertionError when it does not come in time."""
    deadline = time.monotonic() + timeout
    while not (value := fact()):
        assert time.monotonic() < deadline, "the fact did not come in time"
        time.sleep(0.005)
    return value
