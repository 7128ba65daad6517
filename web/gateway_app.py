"""The separate gateway's HTTP: one POST that streams, three GETs that tell how the chain does."""

import hmac
import socket

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from timothy.config import Config
from timothy.conversation import ModelRequest
from timothy.errors import BadRequest, ShuttingDown, TimothyError, Unauthorized
from timothy.gateway.base import Gateway
from web.gateway_relay import Relay, Streams

STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "Connection": "close",  # the stream's end is the connection's: nothing is left to read on it
}
# How the servers that may run this hand over the client's socket.
SOCKETS = ("timothy.socket", "werkzeug.socket")


def create_app(gateway: Gateway, config: Config, token: str, streams: Streams) -> Flask:
    """The WSGI application around `gateway`, open to whoever has `token`."""
    app = Flask("timothy.gateway", static_folder=None)

    @app.before_request
    def authorize() -> None:
        offered = request.headers.get("Authorization", "").encode()
        if request.path != "/health" and not hmac.compare_digest(offered, f"Bearer {token}".encode()):
            raise Unauthorized("this gateway needs its token: Authorization: Bearer TOKEN")

    @app.get("/health")
    def health() -> Response:
        rows = gateway.providers()
        checks = {row.name: "ok" if row.healthy else "failing" for row in rows}
        return _json({"status": "ok" if any(row.healthy for row in rows) else "degraded", "checks": checks})

    @app.get("/v1/models")
    def models() -> Response:
        return _json({"models": gateway.models()})

    @app.get("/v1/providers")
    def providers() -> Response:
        return _json({"providers": gateway.providers()})

    @app.post("/v1/stream")
    def stream() -> Response:
        if streams.closing:
            raise ShuttingDown("the gateway is shutting down")
        relay = Relay(gateway, _model_request(), _client(), streams)
        response = Response(relay, headers=STREAM_HEADERS, direct_passthrough=True)
        return _labelled(response)

    app.register_error_handler(TimothyError, _problem)
    app.register_error_handler(HTTPException, _http_problem)
    return app


def _model_request() -> ModelRequest:
    try:
        return msgspec.json.decode(request.get_data(), type=ModelRequest)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"the body is no model request: {error}") from error


def _client() -> socket.socket:
    for name in SOCKETS:
        if name in request.environ:
            return request.environ[name]  # type: ignore[no-any-return]
    raise RuntimeError(f"the WSGI server gives no client socket: none of {', '.join(SOCKETS)}")


def _json(value: object, status: int = 200) -> Response:
    return _labelled(Response(msgspec.json.encode(value), status, content_type="application/json"))


def _labelled(response: Response) -> Response:
    """`response` with the caller's request id, so that both logs can be read side by side."""
    label = request.headers.get("X-Request-Id")
    if label:
        response.headers["X-Request-Id"] = label
    return response


def _problem(error: TimothyError) -> Response:
    return _json({"error": error.code, "message": error.message, **error.details}, error.status)


def _http_problem(error: HTTPException) -> Response:
    codes = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
    status = error.code or 500
    code = codes.get(status, "bad_request" if status < 500 else "internal_error")
    return _json({"error": code, "message": error.description or error.name}, status)
