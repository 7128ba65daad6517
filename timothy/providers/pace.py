"""Fairness: a loop that always finds bytes lets the others run every few milliseconds of work."""

import time

WORK_S = 0.001
BLOCKED_S = 0.0005
# Not 0: under gevent that runs what is ready but looks at no timer, and a sleeper woke 270 ms late.
A_MOMENT_S = 1e-6


class Pace:
    """Counts one loop's work since it last waited for something.

    Under gevent nobody else runs until a greenlet waits. A yield on every token of a paced stream would
    cost a fifth of the processor, so only work without any wait is counted.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()

    def waited(self, began: float, now: float) -> None:
        """Tell of a call that may have waited, from `began` to `now`; gives way when it never does."""
        if now - began > BLOCKED_S:
            self._since = now
        elif now - self._since > WORK_S:
            self.give_way()

    def worked(self) -> None:
        """Tell of a step that never waits."""
        if time.monotonic() - self._since > WORK_S:
            self.give_way()

    def give_way(self) -> None:
        """Let every other greenlet or thread run once."""
        time.sleep(A_MOMENT_S)
        self._since = time.monotonic()
