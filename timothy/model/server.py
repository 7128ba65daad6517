"""The process that runs a model: an OpenAI-compatible server on loopback, for as long as its stdin is open.

Run as `python -m timothy.model.server`. It reads one line of JSON, {"model": path, "key": text, "window":
tokens}, loads the model, and prints `READY PORT` on its stdout. All else that is said goes to stderr.
"""

import importlib
import json
import os
import sys
from typing import Any

READY = "READY"


def main() -> None:
    """Serve until stdin closes, which it also does when the parent is killed."""
    # The engine's C++ may print, so stdout proper is kept for the one line that the parent waits for.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = json.loads(sys.stdin.buffer.readline())
    server = load(order["model"], order["key"], order["window"])
    print(READY, server.listening_address.rpartition(":")[2], file=answer, flush=True)
    while sys.stdin.buffer.read(4096):
        pass
    # The engine's own farewell waits for the answers that are still being written.
    os._exit(0)


def load(model: str, key: str, window: int) -> Any:
    """The engine's running server. Exits with one line that says why when there can be none."""
    try:
        engine = importlib.import_module("xllamacpp")
        return engine.Server(parameters(engine, model, key, window))
    except Exception as error:  # noqa: BLE001  the engine names no class of its own
        sys.exit(f"{type(error).__name__}: {error}")


def parameters(engine: Any, model: str, key: str, window: int) -> Any:
    """The engine's settings; each is there for a reason that was measured."""
    chosen = engine.CommonParams()
    chosen.model.path = model
    chosen.api_keys = [key]
    chosen.hostnames = ["127.0.0.1"]
    chosen.port = 0
    chosen.n_ctx = window
    chosen.n_parallel = 2
    chosen.kv_unified = True  # else each of the two has half the window
    chosen.n_batch = chosen.n_ubatch = 64  # larger: one long prompt stalls the other answer for 20 s
    chosen.cpuparams.n_threads = 1  # two collapse to a seventh of the speed when one core is busy
    chosen.cpuparams_batch.n_threads = 1
    chosen.cache_ram_mib = 0  # the default keeps up to 8 GiB of old prompts
    chosen.ui = False
    chosen.verbosity = 1  # errors only: they are the last words that a death is explained by
    return chosen


if __name__ == "__main__":
    main()
