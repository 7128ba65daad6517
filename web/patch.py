"""gevent's patch of the standard library, at the start of a process that serves."""

import sys

from timothy.errors import StartError


def patch() -> None:
    """Put gevent under the standard library, before anything that opens sockets is imported.

    Raises StartError when it is too late for that.
    """
    from gevent import monkey

    if monkey.is_module_patched("socket"):
        return
    if "ssl" in sys.modules:
        raise StartError("ssl was imported before gevent's patch: start this command by itself")
    monkey.patch_all()
