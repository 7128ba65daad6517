"""Time as the chain sees it, so that a test can put its own in."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from timothy.cancel import Cancel
from timothy.moment import in_future


@dataclass(frozen=True)
class Clock:
    """Seconds that only grow, a wait that a stop ends, and the stamp of a moment some seconds from now."""

    monotonic: Callable[[], float] = time.monotonic
    wait: Callable[[Cancel, float], bool] = Cancel.wait
    stamp_in: Callable[[float], str] = in_future
