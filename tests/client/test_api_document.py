"""The API's document names every route that the server has, every event and every refusal."""

import re
from pathlib import Path

import pytest

from timothy import errors, events

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
ROUTE = re.compile(r'^@\w+\.(get|post|patch|delete|put)\("(/[^"]+)"\)', re.MULTILINE)
# The page and its files are for browsers, and the gateway's own service is no part of this API.
ELSEWHERE = ("gateway", "page")


def routes() -> list[tuple[str, str]]:
    """(METHOD, path) of every route, with placeholders as the document writes them."""
    files = [path for path in (ROOT / "web").glob("*.py") if not path.stem.startswith(ELSEWHERE)]
    found = (match for path in files for match in ROUTE.findall(path.read_text(encoding="utf-8")))
    return sorted((method.upper(), re.sub(r"<[^>]+>", "{}", path)) for method, path in found)


def test_every_route_is_in_the_document() -> None:
    named = re.sub(r"\{[^}]*\}", "{}", DOCUMENT)
    missing = [
        (method, path)
        for method, path in routes()
        if not re.search(rf"`{method} {re.escape(path)}[`?]", named)
    ]
    assert missing == []
    assert len(routes()) > 20


@pytest.mark.parametrize("kind", errors.RequestError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_refusal_is_in_the_document(kind: type[errors.TimothyError]) -> None:
    assert re.search(rf"^\| {kind.status} \|.*`{kind.code}`", DOCUMENT, re.MULTILINE)


def test_every_event_that_a_viewer_sees_is_in_the_document() -> None:
    hidden = (events.AttemptStarted, events.AttemptEnded)
    tags = {kind.__struct_config__.tag for kind in events.Event.__subclasses__() if kind not in hidden}
    assert {tag for tag in tags if f"`{tag}`" not in DOCUMENT} == set()
