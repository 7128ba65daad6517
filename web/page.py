"""The page and its files, with a policy that lets nothing else in."""

from pathlib import Path

from flask import Blueprint, Response, send_from_directory

STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " manifest-src 'self'; media-src 'self' data: blob:; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)

page = Blueprint("page", __name__)


@page.get("/")
def index() -> Response:
    """The page."""
    return send_from_directory(STATIC, "index.html", max_age=0)


@page.get("/static/<path:name>")
def static_file(name: str) -> Response:
    """A module, a style or a picture of the page."""
    return send_from_directory(STATIC, name, max_age=0)


@page.after_app_request
def harden(response: Response) -> Response:
    """Nothing from elsewhere, no framing, no guessing of types; on every response."""
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
