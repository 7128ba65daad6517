"""Exactly one terminal event, last: the rule that every hop of a stream passes through."""

from collections.abc import Iterable, Iterator

from timothy.errors import TimothyError
from timothy.events import Done, Error, Event

TERMINAL = (Done, Error)


def terminated(events: Iterable[Event], cut: type[TimothyError]) -> Iterator[Event]:
    """`events` up to its first terminal, or, when it ends or breaks without one, an `Error` by name.

    A TimothyError keeps its own code, so the innermost hop's name survives; any other end is `cut`.
    The source is closed in every case, also when the reader goes away.
    """
    try:
        for event in events:
            yield event
            if isinstance(event, TERMINAL):
                return
        yield failure(cut("the stream ended without saying so"))
    except TimothyError as error:
        yield failure(error)
    except Exception as error:  # noqa: BLE001  a hop that breaks still ends its stream by name
        yield failure(cut(f"{type(error).__name__}: {error}"))
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()


def failure(error: TimothyError) -> Error:
    """The terminal event that tells of `error`."""
    known = {name: error.details.get(name) for name in ("retry_after_s", "prompt_tokens", "context_window")}
    return Error(error.code, error.message, error.retryable, **known)
