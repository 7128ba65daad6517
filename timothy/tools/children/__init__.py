"""Programs that tools run as processes of their own: limited, killed whole, dead in time."""

import json
import sys
from collections.abc import Callable
from typing import Any


class ChildError(Exception):
    """What the program could not do, in words for a model."""


def answer(work: Callable[[Any], Any]) -> None:
    """The whole of such a program: one request in JSON from standard input, one answer to standard output."""
    request = json.loads(sys.stdin.buffer.read())
    try:
        result = work(request)
    except ChildError as error:
        result = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(result).encode())
