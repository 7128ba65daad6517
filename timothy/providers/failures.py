"""What a provider says when it refuses, translated into the errors that Timothy knows."""

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from timothy.errors import (
    AuthFailed,
    ContextOverflow,
    ModelNotFound,
    Overloaded,
    ProviderDeclined,
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    RateLimited,
)
from timothy.providers.honest import lenient_json
from timothy.text import honest

MAX_MESSAGE = 2000
GENERIC = (400, 422, 500)  # a type in the body says more than these
GENERIC_NAMES = ("badrequest", "invalidrequest", "invalidargument", "internalserver", "server", "api")
_NAMING = ("type", "code", "error_type", "status", "error_code", "status_code")

_BY_STATUS: dict[int, type[ProviderError]] = {
    400: ProviderRefused,
    401: AuthFailed,
    403: AuthFailed,
    404: ModelNotFound,
    408: ProviderTimeout,
    413: ContextOverflow,
    422: ProviderRefused,
    429: RateLimited,
    500: ProviderFailed,
    502: Overloaded,
    503: Overloaded,
    504: Overloaded,
    529: Overloaded,
}
# Folded type and code names, of OpenAI, Anthropic, vLLM, LiteLLM, llama.cpp and Google's compatible server.
_BY_NAME: dict[str, type[ProviderError]] = {
    "badrequest": ProviderRefused,
    "invalidrequest": ProviderRefused,
    "invalidargument": ProviderRefused,
    "unprocessableentity": ProviderRefused,
    "notsupported": ProviderRefused,
    "contextlengthexceeded": ContextOverflow,
    "contextwindowexceeded": ContextOverflow,
    "exceedcontextsize": ContextOverflow,
    "requesttoolarge": ContextOverflow,
    "authentication": AuthFailed,
    "permission": AuthFailed,
    "permissiondenied": AuthFailed,
    "unauthenticated": AuthFailed,
    "invalidapikey": AuthFailed,
    "notfound": ModelNotFound,
    "modelnotfound": ModelNotFound,
    "timeout": Overloaded,  # Messages' name for a 504
    "requesttimeout": ProviderTimeout,
    "ratelimit": RateLimited,
    "ratelimitexceeded": RateLimited,
    "insufficientquota": RateLimited,
    "resourceexhausted": RateLimited,
    "overloaded": Overloaded,
    "unavailable": Overloaded,
    "serviceunavailable": Overloaded,
    "internalserver": ProviderFailed,
    "server": ProviderFailed,
    "api": ProviderFailed,
}
_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size)|(?:prompt|input) is too long: \d"
    r"|too many input tokens|maximum prompt length|input token count .{0,30}exceeds",
    re.I,
)
_NUMBERS = (
    re.compile(r"request \((?P<prompt>\d+) tokens\).{0,60}\((?P<window>\d+) tokens\)", re.I | re.S),
    re.compile(r"(?P<prompt>\d+) tokens > (?P<window>\d+)", re.I),
    re.compile(r"token count \((?P<prompt>\d+)\).{0,60}allowed \((?P<window>\d+)\)", re.I | re.S),
    re.compile(
        r"context length (?:is|of) (?P<window>\d+)\D"
        r"(?:.{0,200}?(?:requested|resulted in|contains?)\D{0,40}(?P<prompt>\d+))?",
        re.I | re.S,
    ),
)


def refused(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The failure in an HTTP answer that is no success."""
    wait = retry_after(headers.get("retry-after"))
    if 300 <= status < 400:
        target = headers.get("location", "elsewhere")[:200]
        return ProviderDeclined(
            f"the provider answered with a redirect ({status}) to {target}; redirects are not followed:"
            " set base_url to where it leads"
        )
    return failure(_content(body), status, wait)


def failure(told: Any, status: int | None = None, wait: float | None = None) -> ProviderError:
    """The failure in an error object (any JSON value), inside a 200 or with an HTTP `status`."""
    fields = _fields(told)
    message = said(fields)
    kind = _kind(fields, message, status)
    details = _overflow(fields, message) if kind is ContextOverflow else {}
    message += _unsaid(message, **details)
    if wait is not None and kind in (RateLimited, Overloaded):
        details["retry_after_s"] = wait
    return kind(message if status is None else f"{message} (HTTP {status})", **details)


def words(data: bytes | str) -> str:
    """What a person can read in a text or an HTML page: repaired, no tags, at most 2,000 characters."""
    text = data[: 8 * MAX_MESSAGE]
    readable = honest(text if isinstance(text, str) else text.decode("utf-8", "replace"))
    if "<html" in readable[:1000].lower() or readable.lstrip()[:9].lower() == "<!doctype":
        readable = re.sub(r"(?is)<(script|style)\b.*?</\1>|<[^>]*>", " ", readable)
        readable = " ".join(readable.split())
    return readable.strip()[:MAX_MESSAGE]


def said(fields: Mapping[str, Any]) -> str:
    """The provider's own message in an error object's fields."""
    for key in ("message", "error_message", "detail", "error", "msg"):
        value = fields.get(key)
        if value:
            return words(value if isinstance(value, str) else repr(value))
    return words(repr(dict(fields))) if fields else "the provider gave no reason"


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Seconds of a Retry-After header, a number or an HTTP date (RFC 9110, 10.2.3); None if neither."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _content(body: bytes) -> Any:
    try:
        return lenient_json(body.decode("utf-8", "replace"))
    except ValueError:
        return words(body)


def _fields(told: Any) -> dict[str, Any]:
    """The flat fields of an error, wherever a server nests them."""
    match told:
        case [first, *_]:
            return _fields(first)
        case {"error": {} as nested}:
            beside = {key: told[key] for key in _NAMING if isinstance(told.get(key), str | int | float)}
            return beside | _fields(nested)
        case dict():
            return dict(told)
        case _:
            return {"message": str(told)} if told else {}


def _kind(fields: Mapping[str, Any], message: str, status: int | None) -> type[ProviderError]:
    named = _named(fields)
    generic = status is None or status in GENERIC or status == 413
    if (
        generic
        and (named is ContextOverflow or _OVERFLOW.search(message))
        and named not in (RateLimited, AuthFailed)
    ):
        return ContextOverflow
    if status is not None and (status not in GENERIC or named is None):
        return _by_status(status)
    return named or ProviderFailed


def _by_status(status: int) -> type[ProviderError]:
    """A 4xx that no table knows would be given again; a server's own failure may pass."""
    return _BY_STATUS.get(status, ProviderFailed if status >= 500 else ProviderDeclined)


def _named(fields: Mapping[str, Any]) -> type[ProviderError] | None:
    """The class that a code or a type in the error object stands for; of several, the one that says most."""
    values = [fields.get(key) for key in _NAMING]
    numbers = [number for value in values if (number := _number(value)) is not None and 400 <= number < 600]
    names = [name for value in values if isinstance(value, str) and (name := _folded(value)) in _BY_NAME]
    telling = [_by_status(number) for number in numbers if number not in GENERIC]
    telling += [_BY_NAME[name] for name in names if name not in GENERIC_NAMES]
    general = [_by_status(number) for number in numbers] + [_BY_NAME[name] for name in names]
    return next(iter(telling + general), None)


def _number(value: Any) -> int | None:
    """The status in a code that may be a number or its digits."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[1-9]\d{2}", value) else None
    return int(value) if isinstance(value, (int, float)) and 100 <= value < 1000 else None


def _folded(name: str) -> str:
    """`BadRequestError`, `bad_request_error` and `BAD_REQUEST` are one name."""
    return re.sub(r"[^a-z]", "", name.lower()).removesuffix("exception").removesuffix("error")


def _overflow(fields: Mapping[str, Any], message: str) -> dict[str, Any]:
    """Both token numbers, from the fields or from the words."""
    prompt, window = fields.get("n_prompt_tokens"), fields.get("n_ctx")
    if isinstance(prompt, int) and isinstance(window, int):
        return {"prompt_tokens": prompt, "context_window": window}
    for pattern in _NUMBERS:
        found = pattern.search(message)
        if found:
            numbers = {"prompt_tokens": found["prompt"], "context_window": found["window"]}
            return {name: int(number) for name, number in numbers.items() if number}
    return {}


def _unsaid(
    message: str, prompt_tokens: int | None = None, context_window: int | None = None, **_: Any
) -> str:
    """Both token numbers in words, where the provider's words do not have them."""
    if prompt_tokens is None or context_window is None:
        return ""
    if str(prompt_tokens) in message and str(context_window) in message:
        return ""
    return f" ({prompt_tokens} tokens; the window is {context_window})"
