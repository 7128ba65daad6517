"""A call's arguments against its tool's schema (JSON Schema, draft 2020-12), in words for the model."""

import re
from functools import lru_cache
from typing import Any

import jsonschema
import msgspec
import referencing
import referencing.exceptions

MOST_ERRORS = 5


def misfit(name: str, schema: dict[str, Any], input: Any) -> str | None:
    """What is wrong with the arguments `input` of the tool `name`, or None.

    A schema of a server in another language may hold a pattern that Python cannot read: then it is left to
    that server to judge them.
    """
    try:
        validator = _validator(msgspec.json.encode(schema))
        errors = sorted(validator.iter_errors(input), key=lambda error: str(error.json_path))
    except referencing.exceptions.Unresolvable as error:
        return f"{name} cannot be called: its schema points elsewhere ({error})"
    except re.error:
        return None
    except (ArithmeticError, RecursionError) as error:
        return f"{name} cannot be called: its schema cannot be worked with ({error})"
    if not errors:
        return None
    lines = [f"{_place(error)}: {_short(error.message)}" for error in errors[:MOST_ERRORS]]
    return f"The arguments of {name} do not fit its schema. " + "; ".join(lines)


def usable(schema: dict[str, Any]) -> bool:
    """Whether `schema` is one, of an object: any other would fail every call.

    A pattern in it may be another language's.
    """
    try:
        jsonschema.Draft202012Validator.check_schema(schema, jsonschema.FormatChecker(()))
    except (jsonschema.SchemaError, RecursionError):
        return False
    return schema.get("type") == "object"


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema.Draft202012Validator:
    # an empty registry: a `$ref` to somewhere else is an error, never a request
    return jsonschema.Draft202012Validator(msgspec.json.decode(schema), registry=referencing.Registry())


def _place(error: jsonschema.ValidationError) -> str:
    return error.json_path.replace("$", "arguments", 1)


def _short(text: str) -> str:
    """A long message without its middle, which repeats the value: what was wrong stands at its end."""
    return text if len(text) <= 300 else f"{text[:100]} ... {text[-180:]}"
