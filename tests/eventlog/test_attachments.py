"""Attached files: kept once, by what they are, and never lost without a word."""

import base64

import pytest

from timothy.errors import BadRequest, NotFound
from timothy.eventlog import attachments
from timothy.eventlog.records import Record

PIXEL = base64.b64encode(b"\x89PNG...").decode()
TEXT = {"name": " notes.txt ", "media_type": "text/plain", "text": "six\x00\ud800"}
IMAGE = {"name": "p.png", "media_type": "image/png", "data": PIXEL}


def record(kept, kind="user_message"):
    return Record("s", 1, "t", kind, {"text": "look", "attachments": kept}, "now")


def test_a_file_is_kept_by_its_hash_and_comes_back_for_the_model(tmp_path):
    kept = attachments.keep(tmp_path, attachments.parse([TEXT, IMAGE]))
    text, image = kept
    assert set(text) == {"name", "media_type", "bytes", "sha256"}
    assert (text["name"], image["bytes"]) == ("notes.txt", 7)
    assert attachments.content(tmp_path, image["sha256"]) == b"\x89PNG..."
    filled = attachments.filled(tmp_path, record(kept)).payload["attachments"]
    assert filled[0]["text"] == "six\ufffd\ufffd"
    assert filled[1]["data"] == PIXEL


def test_the_same_content_is_kept_once(tmp_path):
    found = attachments.parse([IMAGE, {**IMAGE, "name": "copy.png"}])
    first, second = attachments.keep(tmp_path, found)
    assert first["sha256"] == second["sha256"]
    assert len(list((tmp_path / "attachments").iterdir())) == 1


def test_a_file_that_is_gone_is_said_to_be_gone(tmp_path):
    kept = [{"name": "p.png", "media_type": "image/png", "bytes": 1, "sha256": "0" * 64}]
    (entry,) = attachments.filled(tmp_path, record(kept)).payload["attachments"]
    assert "not there any more" in entry["text"]


def test_rows_without_attachments_are_left_as_they_are(tmp_path):
    for row in (record([]), record(None), record([IMAGE], kind="assistant_turn")):
        assert attachments.filled(tmp_path, row) is row


@pytest.mark.parametrize("digest", ["", "../timothy.db", "0" * 63, "0" * 64, "A" * 64, "0" * 64 + "\n"])
def test_what_is_no_hash_of_a_kept_file_is_not_found(tmp_path, digest):
    (tmp_path / "timothy.db").write_text("secret")
    with pytest.raises(NotFound):
        attachments.content(tmp_path, digest)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "list"),
        ([1], "object"),
        ([{}], "name"),
        ([{**IMAGE, "colour": 1}], "colour"),
        ([{**IMAGE, "data": None}], "base64"),
        ([{**IMAGE, "name": " "}], "1 to 200"),
        ([{**IMAGE, "name": "x" * 201}], "1 to 200"),
        ([{"name": "a", "media_type": "application/pdf"}], "text"),
        ([IMAGE] * 11, "at most 10"),
    ],
)
def test_a_wrong_attachment_is_refused_with_what_is_allowed(value, words):
    with pytest.raises(BadRequest, match=words):
        attachments.parse(value)


@pytest.mark.parametrize("data", ["not base64!", "abc", "ä"])
def test_an_image_must_be_base64(tmp_path, data):
    with pytest.raises(BadRequest, match="no base64"):
        attachments.keep(tmp_path, attachments.parse([{**IMAGE, "data": data}]))
