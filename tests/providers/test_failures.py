"""What a provider says when it refuses reaches the user under the right name, in its own words."""

import json
from typing import Any

import pytest

from timothy.errors import ContextOverflow
from timothy.providers.failures import MAX_MESSAGE, failure, refused, retry_after, words

BY_STATUS = {
    400: "bad_request", 401: "auth_failed", 403: "auth_failed", 404: "model_not_found",
    408: "provider_timeout", 413: "context_overflow", 422: "bad_request", 429: "rate_limited",
    500: "provider_error", 502: "overloaded", 503: "overloaded", 504: "overloaded", 529: "overloaded",
    418: "provider_error", 501: "provider_error", 599: "provider_error",
}  # fmt: skip


@pytest.mark.parametrize(("status", "code"), BY_STATUS.items())
def test_a_status_has_one_code(status: int, code: str) -> None:
    error = refused(status, {}, b'{"error": {"message": "the own words"}}')
    assert error.code == code
    assert "the own words" in error.message and str(status) in error.message


@pytest.mark.parametrize(("status", "code"), BY_STATUS.items())
@pytest.mark.parametrize("form", [int, str, float])
def test_a_status_inside_a_200_means_the_same(status: int, code: str, form: Any) -> None:
    told = form(status) if form is not str else str(status)
    assert failure({"code": told, "message": "the own words"}).code == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"type": "BadRequestError"}, "bad_request"),
        ({"error_type": "BadRequestError", "error_message": "prompt too long"}, "bad_request"),
        ({"type": "invalid_request_error"}, "bad_request"),
        ({"type": "overloaded_error"}, "overloaded"),
        ({"type": "rate_limit_error"}, "rate_limited"),
        ({"code": "rate_limit_exceeded", "type": "requests"}, "rate_limited"),
        ({"code": "insufficient_quota"}, "rate_limited"),
        ({"type": "authentication_error"}, "auth_failed"),
        ({"code": "invalid_api_key", "type": "x"}, "auth_failed"),
        ({"type": "permission_error"}, "auth_failed"),
        ({"type": "not_found_error"}, "model_not_found"),
        ({"code": "model_not_found"}, "model_not_found"),
        ({"type": "NotFoundError"}, "model_not_found"),
        ({"type": "timeout_error"}, "overloaded"),
        ({"type": "timeout_error", "code": 408}, "provider_timeout"),
        ({"type": "request_timeout"}, "provider_timeout"),
        ({"type": "api_error"}, "provider_error"),
        ({"type": "InternalServerError"}, "provider_error"),
        ({"status": "UNAVAILABLE", "code": None}, "overloaded"),
        ({"status": "RESOURCE_EXHAUSTED"}, "rate_limited"),
        ({"type": "exceed_context_size_error"}, "context_overflow"),
        ({"code": "context_length_exceeded"}, "context_overflow"),
        ({"type": "request_too_large"}, "context_overflow"),
        ({"type": "unheard_of"}, "provider_error"),
        ("just words", "provider_error"),
        ({}, "provider_error"),
        ([], "provider_error"),
        (None, "provider_error"),
        (17, "provider_error"),
        ([{"error": {"code": 429}}], "rate_limited"),
        ({"type": "server_error", "code": 503}, "overloaded"),
        ({"type": "invalid_request_error", "code": 429}, "rate_limited"),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, "auth_failed"),
        ({"type": "exceed_context_size_error", "code": 400}, "context_overflow"),
        ({"error": "just words", "code": 503}, "overloaded"),
        ({"error": {"message": "nested words"}, "status_code": "429"}, "rate_limited"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded"),
    ],
)
def test_a_name_inside_a_200_has_one_code(error: Any, code: str) -> None:
    assert failure(error).code == code


def test_a_name_in_the_body_says_more_than_a_general_status() -> None:
    assert refused(400, {}, b'{"error": {"type": "authentication_error"}}').code == "auth_failed"
    assert refused(500, {}, b'{"error": {"type": "overloaded_error"}}').code == "overloaded"
    assert refused(429, {}, b'{"error": {"type": "invalid_request_error"}}').code == "rate_limited"


@pytest.mark.parametrize(
    ("told", "numbers"),
    [
        ({"type": "exceed_context_size_error", "n_prompt_tokens": 921, "n_ctx": 512}, (921, 512)),
        ({"message": "request (921 tokens) exceeds the available context size (512 tokens)"}, (921, 512)),
        ({"message": "prompt is too long: 208310 tokens > 200000 maximum"}, (208310, 200000)),
        (
            {"message": "The input token count (9001) exceeds the maximum number of tokens allowed (4096)."},
            (9001, 4096),
        ),
        (
            {
                "message": "This model's maximum context length is 4096 tokens. However, you requested"
                " 5000 tokens (4500 in the messages, 500 in the completion)."
            },
            (5000, 4096),
        ),
        (
            {"message": "maximum context length is 8192 tokens. But your messages resulted in 9001 tokens."},
            (9001, 8192),
        ),
        ({"code": "context_length_exceeded", "message": "too long"}, (None, None)),
    ],
)
def test_an_overflow_tells_both_numbers_where_they_are_told(
    told: dict[str, Any], numbers: tuple[Any, Any]
) -> None:
    error = refused(400, {}, json.dumps({"error": told}).encode())
    assert isinstance(error, ContextOverflow)
    assert (error.details.get("prompt_tokens"), error.details.get("context_window")) == numbers


def test_both_numbers_of_an_overflow_stand_in_its_words_once() -> None:
    fields = {"type": "exceed_context_size_error", "n_prompt_tokens": 921, "n_ctx": 512}
    assert failure({**fields, "message": "too big"}).message == "too big (921 tokens; the window is 512)"
    assert failure({**fields, "message": "921 tokens, 512 fit"}).message == "921 tokens, 512 fit"


@pytest.mark.parametrize(("status", "retryable"), [(402, False), (405, False), (302, False), (501, True)])
def test_a_refusal_that_has_no_name_is_not_asked_for_again(status: int, retryable: bool) -> None:
    for error in (refused(status, {}, b"words"), failure({"code": status if status >= 400 else 409})):
        assert (error.code, error.retryable) == ("provider_error", retryable)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error": "plain"}', "plain"),
        (b'{"error": {"message": "nested"}}', "nested"),
        (b'{"message": "flat", "type": "x"}', "flat"),
        (b'{"detail": "fastapi"}', "fastapi"),
        (b'{"detail": [{"msg": "field required"}]}', "field required"),
        (b'{"error": {"code": 5}}', "'code': 5"),
        (b"plain words", "plain words"),
        (b"", "HTTP 502"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error": {"message": "half \\ud83d and \\u0000"}}', "half \ufffd and \ufffd"),
        (
            b"<!DOCTYPE html><html><head><style>b {}</style><b>502 Bad Gateway</b></head>nginx</html>",
            "502 Bad Gateway nginx",
        ),
    ],
)
def test_the_providers_own_words_are_kept(body: bytes, expected: str) -> None:
    assert expected in refused(502, {}, body).message


def test_an_answer_without_words_says_so_with_its_status() -> None:
    assert refused(400, {}, b"").message == "the provider gave no reason (HTTP 400)"


def test_words_are_kept_to_a_length_that_can_be_shown() -> None:
    assert len(words("x" * 100_000)) == MAX_MESSAGE
    assert len(refused(500, {}, b'{"error": "' + b"x" * 50_000 + b'"}').message) < MAX_MESSAGE + 20


def test_a_redirect_says_that_it_is_not_followed() -> None:
    error = refused(302, {"location": "https://elsewhere/"}, b"")
    assert error.code == "provider_error"
    assert "https://elsewhere/" in error.message and "not followed" in error.message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2026 07:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, now=1792567680.0) == seconds


def test_the_wait_that_a_provider_asks_for_is_kept() -> None:
    assert refused(429, {"retry-after": "7"}, b"").details == {"retry_after_s": 7.0}
    assert refused(503, {"retry-after": "7"}, b"").details == {"retry_after_s": 7.0}
    assert refused(400, {"retry-after": "7"}, b"").details == {}
