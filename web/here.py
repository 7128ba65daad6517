"""The running system, as a request's handler reaches it."""

from typing import cast

from flask import current_app, g

from actors.system import System

EXTENSION = "timothy"


def system() -> System:
    """The system that this application serves."""
    return cast(System, current_app.extensions[EXTENSION])


def request_id() -> str:
    """This request's id, taken from `X-Request-Id` or made."""
    return cast(str, g.request_id)
