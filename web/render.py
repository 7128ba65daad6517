"""Markdown to HTML for the page: finished blocks of an answer, a few at a time."""

from functools import cache
from typing import Any

from flask import Blueprint

from actors.native import Native
from timothy.errors import BadRequest
from web.markdown import to_html
from web.requests import json_body

MOST_BLOCKS = 200
MOST_CHARACTERS = 200_000

render = Blueprint("render", __name__)


@render.post("/v1/render")
def render_blocks() -> dict[str, Any]:
    """`{"blocks": [TEXT, ...]}` -> `{"html": [HTML, ...]}`, in the same order. Raises BadRequest."""
    return {"html": _thread()(_render_all, _blocks(json_body()))}


@cache
def _thread() -> Native:
    """Rendering is work for the processor: beside the event loop it holds up nobody's stream."""
    return Native()


def _render_all(blocks: list[str]) -> list[str]:
    return [to_html(block) for block in blocks]


def _blocks(body: dict[str, Any]) -> list[str]:
    blocks = body.get("blocks")
    if not isinstance(blocks, list) or not all(isinstance(block, str) for block in blocks):
        raise BadRequest('the body must be {"blocks": [TEXT, ...]}')
    if len(blocks) > MOST_BLOCKS or sum(map(len, blocks)) > MOST_CHARACTERS:
        raise BadRequest(f"at most {MOST_BLOCKS} blocks and {MOST_CHARACTERS} characters in one request")
    return blocks
