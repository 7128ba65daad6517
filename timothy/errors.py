"""Every error Timothy raises or reports, each with its code and its HTTP status.

TimothyError
+-- RequestError                what a caller of the API did
|   +-- BadRequest  Unauthorized  ForbiddenOrigin  ForbiddenHost  NotFound  MethodNotAllowed
|   +-- TooLarge  UnknownModel  NoActiveTurn  TurnInFlight  TurnMismatch  NoRetryableTurn
|   +-- AlreadyResolved  IdempotencyMismatch  StorageUnavailable  ShuttingDown
+-- ProviderError               one attempt at one provider failed
|   +-- ProviderUnreachable  ProviderTimeout  ProviderStalled  StreamCut  MalformedStream
|   +-- ProviderRefused (bad_request)  ContextOverflow  AuthFailed  ModelNotFound
|   +-- RateLimited  Overloaded  ProviderFailed, ProviderDeclined (provider_error)  EmptyOutput
+-- GatewayError                the chain, or the hop to it, failed
|   +-- ChainExhausted  EmptyResponse  GatewayStreamCut
+-- TurnError                   how a turn ends without its model's help
|   +-- Stopped  TurnTimeout  TurnAborted  ServerShutdown  Interrupted
+-- ServerUnreachable           a client's server does not answer
+-- ModelUnavailable            the embedded model cannot be used, fetched or chosen
+-- StartError                  the server refuses to start
    +-- ConfigError  HomeLocked  DatabaseTooNew
"""

from typing import Any, ClassVar


class TimothyError(Exception):
    """The root: `code` names it on the wire, `status` is its HTTP status, `details` are extra JSON fields."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class RequestError(TimothyError):
    """The caller asked for something that cannot be had."""

    code = "bad_request"
    status = 400


class BadRequest(RequestError):
    """The request itself is wrong; the message names what, and what is allowed."""


class Unauthorized(RequestError):
    code = "unauthorized"
    status = 401


class ForbiddenOrigin(RequestError):
    code = "forbidden_origin"
    status = 403


class ForbiddenHost(RequestError):
    code = "forbidden_host"
    status = 403


class NotFound(RequestError):
    code = "not_found"
    status = 404


class NoActiveTurn(RequestError):
    code = "no_active_turn"
    status = 404


class MethodNotAllowed(RequestError):
    code = "method_not_allowed"
    status = 405


class TurnInFlight(RequestError):
    code = "turn_in_flight"
    status = 409


class TurnMismatch(RequestError):
    code = "turn_mismatch"
    status = 409


class NoRetryableTurn(RequestError):
    code = "no_retryable_turn"
    status = 409


class AlreadyResolved(RequestError):
    code = "already_resolved"
    status = 409


class TooLarge(RequestError):
    code = "too_large"
    status = 413


class IdempotencyMismatch(RequestError):
    code = "idempotency_mismatch"
    status = 422


class UnknownModel(RequestError):
    code = "unknown_model"
    status = 400


class StorageUnavailable(RequestError):
    code = "storage_unavailable"
    status = 503
    retryable = True


class ShuttingDown(RequestError):
    code = "server_shutdown"
    status = 503
    retryable = True


class ProviderError(TimothyError):
    """One attempt at one provider failed; `message` keeps the provider's own words."""

    code = "provider_error"
    status = 502
    retryable = True


class ProviderFailed(ProviderError):
    """The provider said 500, or something no other class names."""


class ProviderDeclined(ProviderError):
    """A refusal (3xx, 4xx) that no other class names: asked the same again, it would be given again."""

    retryable = False


class ProviderUnreachable(ProviderError):
    code = "provider_unreachable"


class ProviderTimeout(ProviderError):
    code = "provider_timeout"


class ProviderStalled(ProviderError):
    code = "provider_stalled"


class StreamCut(ProviderError):
    code = "stream_cut"


class MalformedStream(ProviderError):
    code = "malformed_stream"


class ProviderRefused(ProviderError):
    """The provider says that the request is wrong in itself: another provider would say so too."""

    code = "bad_request"
    retryable = False


class ContextOverflow(ProviderRefused):
    """The prompt is longer than the model's window; details `prompt_tokens`, `context_window` where told."""

    code = "context_overflow"


class AuthFailed(ProviderError):
    code = "auth_failed"
    retryable = False


class ModelNotFound(ProviderError):
    code = "model_not_found"
    retryable = False


class RateLimited(ProviderError):
    """Too many requests; detail `retry_after_s` where told."""

    code = "rate_limited"


class Overloaded(ProviderError):
    """The provider has no capacity now; detail `retry_after_s` where told."""

    code = "overloaded"


class EmptyOutput(ProviderError):
    """The attempt finished with no text, no reasoning and no tool call."""

    code = "empty_output"


class GatewayError(TimothyError):
    """The chain of providers, or the hop to a separate gateway, failed."""

    code = "gateway_error"
    status = 502
    retryable = True


class ChainExhausted(GatewayError):
    code = "chain_exhausted"


class EmptyResponse(GatewayError):
    code = "empty_response"


class GatewayStreamCut(GatewayError):
    code = "gateway_stream_cut"


class TurnError(TimothyError):
    """A turn ended by something else than its model."""

    code = "turn_aborted"
    retryable = True


class Stopped(TurnError):
    code = "stopped"


class TurnTimeout(TurnError):
    code = "turn_timeout"


class TurnAborted(TurnError):
    code = "turn_aborted"


class ServerShutdown(TurnError):
    code = "server_shutdown"


class Interrupted(TurnError):
    code = "interrupted"


class ServerUnreachable(TimothyError):
    """The Python client got no answer from its server, or lost it and could not get it back."""

    code = "server_unreachable"
    status = 503
    retryable = True


class ModelUnavailable(TimothyError):
    """The embedded model cannot be used, fetched or chosen; the message says why."""

    code = "model_unavailable"
    status = 503


class StartError(TimothyError):
    """The server refuses to start; the message says what to change."""

    code = "start_refused"


class ConfigError(StartError):
    code = "bad_configuration"


class HomeLocked(StartError):
    code = "home_locked"


class DatabaseTooNew(StartError):
    code = "database_too_new"
