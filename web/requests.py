"""Reading requests: every wrong value is named, with what is allowed."""

import json
import re
import uuid
from typing import Any, TypeVar

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from timothy.errors import BadRequest, NotFound
from timothy.text import honest

Value = TypeVar("Value", str, int, float, bool, dict[str, Any], list[Any])

MOST = 500
_NAMES = {str: "a string", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


def json_body() -> dict[str, Any]:
    """The body's JSON object; no body at all is an empty one. Raises BadRequest, RequestEntityTooLarge."""
    data = request.get_data()
    if _more_is_left(len(data)):
        raise RequestEntityTooLarge
    if not data.strip():
        return {}
    try:
        body = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def _more_is_left(length: int) -> bool:
    """What comes in chunks is read up to the limit, without a word: is there a byte behind it?"""
    if request.content_length is not None or length != request.max_content_length:
        return False
    return bool(request.environ["wsgi.input"].read(1))


def field(
    body: dict[str, Any], name: str, kind: type[Value], *, required: bool = False, most: int | None = None
) -> Value | None:
    """The field `name`, checked, text repaired; None when it is absent or null. Raises BadRequest."""
    value = body.get(name)
    if value is None:
        if required:
            raise BadRequest(f"`{name}` is missing: it must be {_NAMES[kind]}")
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"`{name}` must be {_NAMES[kind]}, is {json.dumps(value)[:80]}")
    return _text(name, value, most) if isinstance(value, str) else value


def _text(name: str, value: str, most: int | None) -> str:
    if not value.strip():
        raise BadRequest(f"`{name}` is empty: it must have at least one character that is not white space")
    if most is not None and len(value) > most:
        raise BadRequest(f"`{name}` has {len(value):,} characters; at most {most:,} are allowed")
    return honest(value)


def limit(default: int) -> int:
    """`?limit=`, 1 to 500. Raises BadRequest."""
    return number("limit", default, 1, MOST)


def number(name: str, default: int, least: int, most: int) -> int:
    """The query's whole number `name` within its bounds, or the default. Raises BadRequest."""
    text = request.args.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
        raise BadRequest(f"`{name}` must be a whole number from {least} to {most}, is {text[:80]!r}")
    return int(text)


def identifier(text: str, what: str) -> str:
    """`text` as the UUID that it must be. Raises NotFound, since no other id can exist."""
    try:
        found = str(uuid.UUID(text))
    except ValueError:
        found = ""
    if not found or found != text.lower():
        raise NotFound(f"no {what} {text[:80]!r}: an id is a UUID")
    return found


def idempotency_key() -> str | None:
    """The `Idempotency-Key` header, or None. Raises BadRequest."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not re.fullmatch(r"[\x21-\x7e]{1,200}", key):
        raise BadRequest("Idempotency-Key must be 1 to 200 visible ASCII characters without spaces")
    return key


def respond_async() -> bool:
    """True when the caller prefers not to wait for the stream (RFC 7240, `respond-async`)."""
    preferences = ",".join(request.headers.getlist("Prefer")).split(",")
    return any(part.split(";")[0].strip().lower() == "respond-async" for part in preferences)
