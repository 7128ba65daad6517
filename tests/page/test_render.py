"""The page asks for blocks of Markdown and gets them as HTML, in either world."""

import json

import pytest
from flask import Flask

from timothy.errors import TimothyError
from web.render import MOST_BLOCKS, MOST_CHARACTERS, render


def _post(body: object) -> tuple[int, dict[str, object]]:
    app = Flask("test")
    app.register_blueprint(render)
    app.register_error_handler(TimothyError, lambda error: ({"error": error.code}, error.status))
    response = app.test_client().post("/v1/render", data=json.dumps(body))  # as curl says it: of no type
    return response.status_code, response.get_json()


def test_blocks_come_back_in_their_order() -> None:
    assert _post({"blocks": ["*a*", "b"]}) == (200, {"html": ["<p><em>a</em></p>\n", "<p>b</p>\n"]})


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"blocks": "a"},
        {"blocks": [1]},
        {"blocks": [""] * (MOST_BLOCKS + 1)},
        {"blocks": ["a" * (MOST_CHARACTERS + 1)]},
    ],
    ids=["null", "list", "empty", "text", "number", "many", "long"],
)
def test_a_body_that_is_no_list_of_blocks_is_refused(body: object) -> None:
    assert _post(body) == (400, {"error": "bad_request"})
