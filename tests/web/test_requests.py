"""Reading requests: what is wrong is named, with what is allowed."""

import uuid

import pytest
from flask import Flask

from timothy.errors import BadRequest, NotFound
from web import requests


@pytest.fixture
def app():
    return Flask("test")


def body(app, data):
    with app.test_request_context("/", method="POST", data=data):
        return requests.json_body()


@pytest.mark.parametrize(("data", "value"), [(b"", {}), (b" \n", {}), (b"{}", {}), (b'{"a": 1}', {"a": 1})])
def test_a_body_is_an_object_or_nothing(app, data, value):
    assert body(app, data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"1",
        b"null",
        b"{",
        b"\xff",
        b'{"a":}',
        b"[" * 100_000,
        b"1" * 10_000,
        '{"a": 1}'.encode("utf-16"),
        b'{"a": "\xed\xa0\x80"}',  # half a surrogate pair as bytes: no UTF-8
    ],
)
def test_any_other_body_is_refused(app, data):
    with pytest.raises(BadRequest, match="JSON"):
        body(app, data)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (None, str, "`x` is missing: it must be a string"),
        (1, str, "`x` must be a string, is 1"),
        ("", str, "`x` is empty"),
        (" \n\u3000", str, "`x` is empty"),
        (True, int, "`x` must be a whole number, is true"),
        (1.5, int, "`x` must be a whole number, is 1.5"),
        ("1", bool, 'must be true or false, is "1"'),
        ([], dict, "must be an object, is []"),
        ({}, list, "must be a list, is {}"),
        ("abcdef", str, "6 characters; at most 5"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_must_be(value, kind, words):
    with pytest.raises(BadRequest) as caught:
        requests.field({"x": value}, "x", kind, required=True, most=5)
    assert words in caught.value.message


def test_a_field_that_may_be_absent_may_be_null():
    assert requests.field({}, "x", str) is None
    assert requests.field({"x": None}, "x", str) is None


def test_text_is_repaired():
    assert requests.field({"x": "a\ud800\x00"}, "x", str) == "a\ufffd\ufffd"


@pytest.mark.parametrize("text", ["0", "501", "-1", "ten", "1.0", "1e2", " 5", "٣", "9" * 30, ""])
def test_a_limit_is_a_whole_number_from_1_to_500(app, text):
    with (
        app.test_request_context("/", query_string={"limit": text}),
        pytest.raises(BadRequest, match="1 to 500"),
    ):
        requests.limit(50)


def test_a_limit_has_a_default(app):
    with app.test_request_context("/"):
        assert requests.limit(50) == 50
    with app.test_request_context("/?limit=500"):
        assert requests.limit(50) == 500


def test_an_id_is_a_uuid_in_any_case():
    given = uuid.uuid4()
    assert requests.identifier(str(given).upper(), "session") == str(given)


@pytest.mark.parametrize(
    "text", ["", "x", "0" * 31, uuid.uuid4().hex, "{" + str(uuid.uuid4()) + "}", f"urn:uuid:{uuid.uuid4()}"]
)
def test_no_other_spelling_of_an_id_is_found(text):
    with pytest.raises(NotFound, match="no session"):
        requests.identifier(text, "session")


@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "a\tb", "x" * 201])
def test_a_key_that_cannot_be_is_refused(app, key):
    with (
        app.test_request_context("/", headers={"Idempotency-Key": key}),
        pytest.raises(BadRequest, match="1 to 200"),
    ):
        requests.idempotency_key()


def test_a_key_may_be_absent_or_any_visible_ascii(app):
    with app.test_request_context("/"):
        assert requests.idempotency_key() is None
    with app.test_request_context("/", headers={"Idempotency-Key": "!~" + "x" * 198}):
        assert requests.idempotency_key() == "!~" + "x" * 198


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("respond-async", True),
        ("Respond-Async", True),
        ("wait=10, respond-async; x=1", True),
        ("respond-asynchronous", False),
        ("wait=10", False),
        ("", False),
    ],
)
def test_a_preference_is_read_as_its_standard_says(app, header, expected):
    with app.test_request_context("/", headers={"Prefer": header}):
        assert requests.respond_async() is expected
