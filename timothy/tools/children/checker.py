"""Checks what strangers' schemas say, each question in a process of its own: a pattern in one can run away.

Started with a listening Unix socket as standard input. One connection is one question, a line of JSON, and
its answer, another; a question that takes more than its time or memory gets none.
"""

import json
import os
import resource
import signal
import socket
import sys
from typing import Any

from timothy.tools.arguments import misfit, usable

MEMORY = 512 * 1024 * 1024
LONGEST_S = 20
"""After so many seconds of the clock a question is given up, whatever it waits for."""


def answer(question: dict[str, Any]) -> Any:
    """To `{name, schema, input}`, what is wrong with the input or null; to `{schemas}`, which can be used."""
    if "schemas" in question:
        return [usable(schema) for schema in question["schemas"]]
    return misfit(question["name"], question["schema"], question["input"])


def main() -> None:
    """Serve until this process is killed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a child ended
    with socket.socket(fileno=sys.stdin.fileno()) as listener:
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                try:
                    _one(connection)
                finally:
                    os._exit(0)
            connection.close()


def _one(connection: socket.socket) -> None:
    signal.alarm(LONGEST_S)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with connection, connection.makefile("rwb") as lines:
        question = json.loads(lines.readline())
        seconds = int(question["seconds"])  # of the processor: a busy machine is not held against a schema
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        lines.write(json.dumps(answer(question)).encode() + b"\n")


if __name__ == "__main__":
    main()
