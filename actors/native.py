"""The one door to real threads: blocking database and disk work beside an event loop."""

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


def patched() -> bool:
    """True when gevent has patched this process."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


class Native:
    """One real thread under gevent, or a few, which park only their callers; a direct call in plain threads,
    no more than so many at a time.

    What runs inside uses sqlite3, peewee, files and plain values only: no tell, lock, queue or logging.
    """

    def __init__(self, threads: int = 1) -> None:
        self._pool: Any = None
        self._free = threading.BoundedSemaphore(threads)
        if patched():
            from gevent.threadpool import ThreadPool

            self._pool = ThreadPool(threads)

    def __call__(self, work: Callable[[*Arguments], Result], *plain: *Arguments) -> Result:
        """`work(*plain)` in a native thread; its result, or its exception."""
        if self._pool is None:
            with self._free:
                return work(*plain)
        outcome = self._pool.apply(_attempt, (work, plain))
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome  # type: ignore[no-any-return]

    def close(self, patience_s: float | None = None) -> None:
        """End the threads when their work is done; after `patience_s`, leave to its disk what still hangs."""
        if self._pool is not None:
            import gevent

            gevent.spawn(self._pool.kill).join(patience_s)


class _Raised:
    """An exception as a value: the pool itself would print what passes through it."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _attempt(work: Callable[..., Any], plain: tuple[Any, ...]) -> Any:
    try:
        return work(*plain)
    except Exception as error:  # noqa: BLE001  raised again by the caller
        return _Raised(error)


class Pool:
    """Several native threads, each with a resource of its own (a read connection), used in turn."""

    def __init__(self, resources: list[Any]) -> None:
        self._workers = [(Native(), resource) for resource in resources]
        self._next = 0

    def __call__(self, work: Callable[..., Result], *plain: Any, **named: Any) -> Result:
        """`work(resource, *plain, **named)` in the next thread."""
        self._next = (self._next + 1) % len(self._workers)
        native, resource = self._workers[self._next]
        return native(_named, work, resource, plain, named)

    def close(self) -> None:
        """Close the resources and end the threads."""
        for native, resource in self._workers:
            native(resource.close)
            native.close()


def _named(
    work: Callable[..., Result], resource: Any, plain: tuple[Any, ...], named: dict[str, Any]
) -> Result:
    return work(resource, *plain, **named)
