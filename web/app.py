"""The Flask application: one blueprint a resource, around a running system."""

import re
import uuid

from flask import Flask, Response, g, request

from actors.system import System
from web import auth, problems
from web.chain import chain
from web.health import health
from web.here import EXTENSION
from web.instructions import instructions
from web.memory import memory
from web.notifications import notifications
from web.page import page
from web.permissions import permissions
from web.render import render
from web.sends import sends
from web.sessions import sessions
from web.turns import turns

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,200}")


def create_app(system: System, token: str) -> Flask:
    """The WSGI application that serves `system` to whoever has `token`."""
    app = Flask("timothy", static_folder=None)
    app.extensions[EXTENSION] = system
    app.config["MAX_CONTENT_LENGTH"] = int(system.config.server.max_body_mb * (1 << 20))
    app.url_map.merge_slashes = False
    app.before_request(_label_request)
    app.after_request(_label_response)
    problems.register(app)
    auth.protect(app, auth.Guard(token, system.config.server))
    for blueprint in (
        page,
        health,
        sessions,
        sends,
        turns,
        permissions,
        chain,
        memory,
        instructions,
        notifications,
        render,
    ):
        app.register_blueprint(blueprint)
    return app


def _label_request() -> None:
    given = request.headers.get("X-Request-Id", "")
    g.request_id = given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())


def _label_response(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.get("request_id", "")
    return response
