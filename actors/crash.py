"""Dying on purpose: a named step of a turn at which the process kills itself, for proofs of recovery."""

import os
import signal

STEPS = (
    "before_claim",
    "after_claim",
    "after_begun",
    "before_dial",
    "first_delta",
    "in_text",
    "permission_parked",
    "tool_start_durable",
    "tool_ended",
    "before_evidence",
    "after_evidence",
    "before_release",
)

_wanted, _, _count = os.environ.get("TIMOTHY_CRASH_AT", "").partition(":")
_left = int(_count or 1)


def crash_point(step: str) -> None:
    """Kill this process with SIGKILL if TIMOTHY_CRASH_AT is `step`, or `step:N` and this is its N-th time."""
    global _left
    if _wanted == step:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
