"""An attached file is in the home before its message is in the log, and reaches models that can see."""

import base64
import json

import pytest

from tests.fakes.provider import FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not much of a picture").decode()
PICTURE = {"name": "dot.png", "media_type": "image/png", "data": PIXEL}
NOTES = {"name": "notes.txt", "media_type": "text/plain", "text": "the secret word is plum"}


def send(server: Server, session: str, *attachments: object) -> None:
    body = {"message": "look", "attachments": attachments}
    turn = server.stream("POST", f"/v1/sessions/{session}/messages", body).rest()
    assert turn.end == "done", turn.events[-2]


def test_a_text_file_is_read_by_any_model(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    send(server, session, NOTES)
    asked = json.dumps(provider.requests("fake")[0].body["messages"])
    assert "notes.txt" in asked and "the secret word is plum" in asked


def test_an_image_goes_to_a_model_that_can_see(servers: Start, provider: FakeProvider) -> None:
    server = servers(TIMERS + entry(provider, "seeing", vision=True))
    send(server, server.session(), PICTURE)
    content = provider.requests("seeing")[0].body["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    assert urls == [f"data:image/png;base64,{PIXEL}"]


def test_a_model_that_cannot_see_is_told_that_there_was_an_image(
    server: Server, provider: FakeProvider
) -> None:
    send(server, server.session(), PICTURE)
    asked = json.dumps(provider.requests("fake")[0].body["messages"])
    assert PIXEL not in asked and "image" in asked


def test_the_log_names_the_file_and_the_home_keeps_it(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    send(server, session, NOTES, PICTURE)
    item = server.read(session)["items"][0]
    assert [(a["name"], a["media_type"], a["bytes"]) for a in item["attachments"]] == [
        ("notes.txt", "text/plain", 23),
        ("dot.png", "image/png", len(base64.b64decode(PIXEL))),
    ]
    digest = item["attachments"][1]["sha256"]
    answer = server.call("GET", f"/v1/attachments/{digest}?media_type=image/png")
    assert (answer.headers["Content-Type"], answer.content) == ("image/png", base64.b64decode(PIXEL))


@pytest.mark.parametrize(
    ("attachments", "words"),
    [
        ("no list", "must be a list"),
        ([{"name": "x"}], "media_type"),
        ([{**PICTURE, "data": "no base64!"}], "base64"),
        ([{**PICTURE, "data": None}], "needs `data`"),
        ([{"name": "x", "media_type": "video/mp4", "data": PIXEL}], "attach a text file"),
        ([{**NOTES, "name": " "}], "name"),
        ([NOTES] * 11, "at most 10"),
    ],
)
def test_a_wrong_attachment_is_refused_and_nothing_is_sent(
    server: Server, attachments: object, words: str
) -> None:
    session = server.session()
    body = {"message": "look", "attachments": attachments}
    answer = server.call("POST", f"/v1/sessions/{session}/messages", body)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert words in answer.json()["message"]
    assert server.read(session)["items"] == []
