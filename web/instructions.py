"""`/v1/instructions`: what every model is told before a conversation."""

from flask import Blueprint, Response

from web.here import system
from web.problems import json_response
from web.requests import field, json_body
from web.sessions import refuse

MOST_CHARACTERS = 8_000

instructions = Blueprint("instructions", __name__)


@instructions.get("/v1/instructions")
def show() -> Response:
    """What was set here, and what the configuration says."""
    return json_response(_shown())


@instructions.put("/v1/instructions")
def change() -> Response:
    """`{"text"}`: say this from the next turn on, or nothing for null."""
    body = json_body()
    nothing = "text" in body and body["text"] is None
    text = None if nothing else field(body, "text", str, required=True, most=MOST_CHARACTERS)
    here = system()
    refuse(here.instructions.change(text, here.write))
    return json_response(_shown())


def _shown() -> dict[str, str | None]:
    here = system()
    return {"text": here.instructions.settings, "configured": here.instructions.configured or None}
