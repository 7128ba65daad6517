"""The tool that asks the SearXNG server which the person configured.

Wire: SearXNG's search API, https://docs.searxng.org/dev/search_api.html (`format=json`).
"""

from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from timothy.cancel import Cancel
from timothy.config import Config
from timothy.tools.base import Context, Danger, ToolError
from timothy.tools.process import Limits, ask_child

LIMITS = Limits(time_s=30, kept_output=16_000_000)
USUAL = 8


class Found(msgspec.Struct):
    """One result of a search."""

    url: str
    title: str = ""
    content: str | None = None


class Answer(msgspec.Struct):
    """What SearXNG says, as far as it is used."""

    results: list[Found]


class WebSearch:
    """Addresses, titles and excerpts for some words."""

    name = "web_search"
    description = "Search the web. Gives addresses, titles and excerpts; fetch_url reads a page."
    danger: Danger = "network"
    native = False
    schema = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "The words to look for",
                "minLength": 1,
                "maxLength": 500,
            },
            "count": {
                "type": "integer",
                "description": f"How many results at most; {USUAL} when left out",
                "minimum": 1,
                "maximum": 20,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return "the web"

    def rationale(self, input: dict[str, Any]) -> str:
        return (
            f"Searches the web for {input['query'][:200]!r}: the search server, and those it asks, learn of"
            " these words, and what strangers wrote goes to the model."
        )

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        base = context.settings.searxng_url.rstrip("/")
        if not base:
            raise ToolError("no search server is configured (tools.searxng_url)")
        url = f"{base}/search?{urlencode({'q': input['query'], 'format': 'json'})}"
        parts = urlsplit(base)
        request = {"url": url, "whole": True, "raw": True, "trusted": [f"{parts.scheme}://{parts.netloc}"]}
        page = ask_child("page", request, cancel, LIMITS)
        return _shown(_results(page["text"])[: input.get("count", USUAL)])


def configured(config: Config) -> bool:
    """There is a search only where the person named a server."""
    return bool(config.tools.searxng_url)


def _results(text: str) -> list[Found]:
    try:
        return msgspec.json.decode(text, type=Answer).results
    except msgspec.MsgspecError as error:
        raise ToolError(
            f"the search server did not answer in JSON; its `formats` setting must allow it ({error})"
        ) from error


def _shown(results: list[Found]) -> str:
    if not results:
        return "Nothing found."
    return "\n\n".join(
        f"{found.title}\n{found.url}\n{' '.join((found.content or '').split())}" for found in results
    )


TOOL = WebSearch()
