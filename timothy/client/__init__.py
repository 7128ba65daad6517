"""The Python client: send, watch, stop and answer over HTTP; a lost stream goes on from its cursor."""

from timothy import errors, events
from timothy.client.api import Client
from timothy.client.shapes import (
    Accepted,
    Attempt,
    LogRow,
    Page,
    Permission,
    Running,
    Session,
    StopAnswer,
    Turn,
)
from timothy.client.stream import TurnStream

__all__ = [
    "Accepted",
    "Attempt",
    "Client",
    "LogRow",
    "Page",
    "Permission",
    "Running",
    "Session",
    "StopAnswer",
    "Turn",
    "TurnStream",
    "errors",
    "events",
]
