"""Errors as JSON, whoever raised them: one shape, a fitting status, nothing lost."""

import logging
from typing import cast

import msgspec
import peewee
import pykka
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from timothy.errors import ShuttingDown, StorageUnavailable, TimothyError

logger = logging.getLogger(__name__)

_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


def register(app: Flask) -> None:
    """Answer every error of the application as `{"error": CODE, "message": TEXT, ...}`."""
    app.register_error_handler(TimothyError, problem)
    app.register_error_handler(HTTPException, _http_problem)
    app.register_error_handler(peewee.OperationalError, _storage_problem)
    app.register_error_handler(pykka.Timeout, _slow_problem)
    app.register_error_handler(pykka.ActorDeadError, _late_problem)
    app.register_error_handler(Exception, _unforeseen)


def json_response(value: object, status: int = 200) -> Response:
    """`value` as a JSON response."""
    return Response(msgspec.json.encode(value), status, content_type="application/json")


def problem(error: TimothyError) -> Response:
    """The error's own words, code and status."""
    return json_response({"error": error.code, "message": error.message, **error.details}, error.status)


def _http_problem(error: HTTPException) -> Response:
    status = error.code or 500
    if status < 400:
        return cast(Response, error.get_response())
    code = _CODES.get(status, "bad_request" if status < 500 else "internal_error")
    response = json_response({"error": code, "message": error.description or error.name}, status)
    if status == 413:
        response.headers["Connection"] = "close"  # the rest of the body is not waited for
    if status == 405 and getattr(error, "valid_methods", None):
        response.headers["Allow"] = ", ".join(error.valid_methods or ())  # type: ignore[attr-defined]
    return response


def _storage_problem(error: peewee.OperationalError) -> Response:
    logger.error("the storage cannot be read: %s", error)
    return problem(StorageUnavailable(f"the storage cannot be read now: {error}"))


def _slow_problem(error: pykka.Timeout) -> Response:
    logger.error("an actor did not answer in time: %s", error)
    return problem(StorageUnavailable("the server is too busy to answer in time: try again"))


def _late_problem(_: pykka.ActorDeadError) -> Response:
    return problem(ShuttingDown("the server is shutting down"))


def _unforeseen(error: Exception) -> Response:
    logger.exception("a request broke: %s %s", request.method, request.path)
    return json_response({"error": "internal_error", "message": f"{type(error).__name__}: {error}"}, 500)
