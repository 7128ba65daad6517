"""`/v1/notifications`: the addresses that hear of turns which nobody watches."""

from typing import Any
from urllib.parse import urlsplit

import requests
from flask import Blueprint, Response

from actors import notify
from actors.addresses import KINDS, Kind
from timothy.errors import BadRequest
from web.here import system
from web.problems import json_response
from web.requests import field, json_body
from web.sessions import refuse

TEST_S = 5.0
MOST_CHARACTERS = 2_000

notifications = Blueprint("notifications", __name__)


@notifications.get("/v1/notifications")
def show() -> Response:
    """What was set here, and what the configuration names."""
    return json_response(_shown())


@notifications.put("/v1/notifications")
def change() -> Response:
    """`{"webhook"?, "ntfy"?}`: call this address from now on, or none for null."""
    body = json_body()
    wanted: dict[Kind, str | None] = {kind: _address(body, kind) for kind in KINDS if kind in body}
    if not wanted:
        raise BadRequest(f"there is nothing to change: give one of {', '.join(KINDS)}")
    here = system()
    refuse(here.addresses.change(wanted, here.write))
    return json_response(_shown())


@notifications.post("/v1/notifications/test")
def test() -> Response:
    """Tell every address something now; what came back from each."""
    return json_response({"results": notify.call(system().addresses.all(), notify.TEST, TEST_S)})


def _shown() -> dict[str, Any]:
    here = system()
    configured: dict[str, Any] = dict(here.addresses.configured().items())
    configured["always"] = here.config.notify.always
    return {**dict(here.addresses.settings().items()), "configured": configured}


def _address(body: dict[str, Any], kind: Kind) -> str | None:
    if body[kind] is None:
        return None
    url = field(body, kind, str, required=True, most=MOST_CHARACTERS) or ""
    if not _can_be_called(url):
        raise BadRequest(f"`{kind}` must be an address such as https://example.org/path, is {url[:80]!r}")
    return url


def _can_be_called(url: str) -> bool:
    """An http or https URL with a host, as it stands: nothing in it that was repaired or is not seen."""
    if any(character in " \ufffd" or not character.isprintable() for character in url):
        return False
    try:
        parts = urlsplit(url)
        requests.Request("POST", url).prepare()
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (requests.RequestException, ValueError):
        return False
