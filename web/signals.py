"""SIGTERM and Ctrl-C: a wish to stop, heard by whoever waits."""

import os
import signal
from typing import Any


def on_signals(stopping: Any) -> None:
    """SIGTERM and Ctrl-C set the event; a second Ctrl-C ends the process at once.

    A handler may run inside any greenlet, so it does nothing else.
    """

    def ask_to_stop(number: int, _: Any) -> None:
        if number == signal.SIGINT and stopping.is_set():
            os._exit(130)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
