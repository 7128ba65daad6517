"""Does every provider answer? One short question to each, what came back, and what to mend."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from timothy.cancel import Cancel
from timothy.config import Config, ProviderSettings, chain
from timothy.conversation import Message, ModelRequest
from timothy.errors import Overloaded, ProviderTimeout, Stopped, TimothyError
from timothy.events import (
    AttemptEnded,
    AttemptStarted,
    Done,
    Error,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from timothy.gateway.attempt import Attempt, model_of
from timothy.gateway.base import Gateway, ProviderRow
from timothy.gateway.clock import Clock
from timothy.providers.base import Driver, load
from timothy.stream import failure

QUESTION = ModelRequest(messages=(Message("user", "Answer with one word: what colour is the sky?"),))
SHOWN_CHARACTERS = 60
ADVICE = {
    "provider_unreachable": "start the provider, or correct base_url",
    "provider_timeout": "try again; if it stays slow, raise first_content_timeout_s",
    "provider_stalled": "see whether the provider is busy loading; raise first_content_timeout_s if it is",
    "stream_cut": "look into the provider's own log: it broke off without a word",
    "malformed_stream": "check driver and base_url: what answers there does not speak this driver's wire",
    "bad_request": "read the provider's words: it does not accept the request or the model's settings",
    "context_overflow": "give the model a larger context window: it cannot even take one sentence",
    "auth_failed": "check the key in the environment variable that api_key_env names",
    "model_not_found": "correct model: the provider does not have it; or base_url, if nothing answers there",
    "rate_limited": "wait, or ask the provider for a higher limit",
    "overloaded": "wait: the provider has no capacity now",
    "provider_error": "read the provider's words, and its own log",
    "empty_output": "try another model: this one ends without saying anything",
    "bad_configuration": "correct the entry in timothy.toml",
}
GATEWAY_ADVICE = {
    "provider_unreachable": "start `timothy gateway` there, or correct GATEWAY_URL",
    "auth_failed": "give the gateway and this side the same TIMOTHY_GATEWAY_TOKEN",
}


class ProbeResult(msgspec.Struct, frozen=True):
    """How one entry of the chain did. `said` is the start of its answer; times in milliseconds."""

    provider: str
    driver: str
    model: str
    ok: bool
    said: str
    code: str | None
    message: str | None
    advice: str | None
    first_token_ms: int | None
    duration_ms: int


def probe(
    config: Config,
    home: Path,
    limit_s: float = 60,
    driver: Callable[[ProviderSettings, Path], Driver] = load,
) -> list[ProbeResult]:
    """Ask every entry of the chain once, one after the other, each for at most `limit_s` seconds."""
    return [_ask(entry, home, limit_s, driver) for entry in chain(config)]


def probe_through(gateway: Gateway, limit_s: float = 60, name: str | None = None) -> list[ProbeResult]:
    """Ask the entries of a gateway's chain once each, or the one called `name`, through the gateway.

    Only the first attempt counts, not what the rest of the chain would make of it. A gateway that cannot be
    asked is one result of its own.
    """
    began = time.monotonic()
    try:
        rows = gateway.providers()
        return [_ask_through(gateway, row, limit_s) for row in rows if name in (None, row.name)]
    except TimothyError as error:
        told = _result(
            ProviderRow("gateway", "gateway", "", False, None, None), began, [failure(error)], None
        )
        advice = GATEWAY_ADVICE.get(error.code, "look into the gateway's own log")
        return [msgspec.structs.replace(told, advice=advice)]


def report(results: Iterable[ProbeResult]) -> str:
    """The results for a person: a line each, and under a failure its words and what to mend."""
    return "\n".join(_lines(result) for result in results)


def _ask(
    entry: ProviderSettings, home: Path, limit_s: float, driver: Callable[[ProviderSettings, Path], Driver]
) -> ProbeResult:
    began = time.monotonic()
    try:
        loaded = driver(entry, home)
    except TimothyError as error:
        return _result(entry, began, [failure(error)], None)
    except ImportError as error:
        reason = Error("provider_error", f"the driver {entry.driver!r} cannot be loaded: {error}", False)
        return _result(entry, began, [reason], None)
    try:
        return _result(entry, began, *_answer(entry, loaded, limit_s))
    finally:
        loaded.close()


def _answer(entry: ProviderSettings, driver: Driver, limit_s: float) -> tuple[list[Event], int | None]:
    """The answer's events, the terminal last, and when the first token came."""
    cancel = Cancel()
    limit = threading.Timer(limit_s, cancel.cancel)
    limit.start()
    attempt = Attempt(entry, driver, Clock())
    try:
        *events, row = attempt.events(QUESTION, cancel)
    finally:
        limit.cancel()
    terminal: Event = attempt.terminal
    if isinstance(terminal, Error) and terminal.code == Stopped.code:
        terminal = failure(ProviderTimeout(f"no whole answer within {limit_s:g} s"))
    return [*events, terminal], getattr(row, "first_token_ms", None)


def _ask_through(gateway: Gateway, row: ProviderRow, limit_s: float) -> ProbeResult:
    began = time.monotonic()
    cancel = Cancel()
    limit = threading.Timer(limit_s, cancel.cancel)
    limit.start()
    request = msgspec.structs.replace(QUESTION, model=f"{row.name}/{model_of(row)}")
    events: list[Event] = []
    try:
        for event in gateway.stream(request, cancel):
            events.append(event)
            if _decided(events, row.name):
                break
        late = cancel.cancelled
    finally:
        limit.cancel()
        cancel.cancel()  # the rest of the chain is not wanted
    first = next((event.first_token_ms for event in events if isinstance(event, AttemptEnded)), None)
    return _result(row, began, [*events, _end(gateway, row, events, limit_s if late else None)], first)


def _decided(events: list[Event], name: str) -> bool:
    """The entry's own attempt is over and what followed it was heard, or another entry is tried instead."""
    last = events[-1]
    if isinstance(last, AttemptStarted):
        return last.provider != name
    return len(events) > 1 and isinstance(events[-2], AttemptEnded)


def _end(gateway: Gateway, row: ProviderRow, events: list[Event], late_s: float | None) -> Event:
    """How the entry's own attempt ended; where its words were not heard, they are the gateway's last ones."""
    last = events[-1]
    if late_s is not None and not isinstance(last, Done):
        return failure(ProviderTimeout(f"no whole answer within {late_s:g} s"))
    if isinstance(last, Done | Error):
        return last
    now = next((one for one in gateway.providers() if one.name == row.name), row)
    for event in events:
        if isinstance(event, AttemptEnded):
            return Error(event.code or "provider_error", now.last_error or "it failed", False)
    return failure(Overloaded(f"it rests until {now.cooling_until}, after {now.last_error}"))


def _result(
    entry: ProviderSettings | ProviderRow, began: float, events: list[Event], first_token_ms: int | None
) -> ProbeResult:
    said = "".join(event.text for event in events if isinstance(event, TextDelta)).strip()
    thought = any(isinstance(event, ReasoningDelta | ToolCall) for event in events)
    last = events[-1]
    code, message = (last.code, last.message) if isinstance(last, Error) else (None, None)
    return ProbeResult(
        entry.name,
        entry.driver,
        model_of(entry),
        code is None,
        said[:SHOWN_CHARACTERS] or ("(no text, but thoughts or a tool call)" if thought else ""),
        code,
        message,
        None if code is None else ADVICE.get(code, ADVICE["provider_error"]),
        first_token_ms,
        round((time.monotonic() - began) * 1000),
    )


def _lines(result: ProbeResult) -> str:
    head = f"{result.provider} ({result.driver}, {result.model})"
    first = "" if result.first_token_ms is None else f", the first token after {result.first_token_ms} ms"
    if result.ok:
        return f"ok      {head}: {result.said!r} in {result.duration_ms} ms{first}"
    failed = f"failed  {head}: {result.code} after {result.duration_ms} ms"
    return f"{failed}\n        {result.message}\n        To mend it: {result.advice}"
