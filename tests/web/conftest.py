"""The application in this process, around a house whose gateway plays."""

import json

import pytest
from flask.testing import FlaskClient

from tests.actors.play import House
from tests.conftest import WORLD
from web.app import create_app

TOKEN = "the-token"
collect_ignore = [] if WORLD == "gevent" else ["test_server.py"]  # gevent's server needs gevent's loop


class Client(FlaskClient):
    """Has the token; a header that is None is left out."""

    def open(self, *arguments, **options):
        if not isinstance(arguments[0] if arguments else None, str):
            return super().open(*arguments, **options)
        known = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
        headers = known | (options.pop("headers", None) or {})
        given = {name: value for name, value in headers.items() if value is not None}
        return super().open(*arguments, headers=given, **options)

    def session(self, **body):
        return self.post("/v1/sessions", json=body).get_json()["id"]

    def send(self, session_id, message="Hello", **options):
        return self.post(f"/v1/sessions/{session_id}/messages", json={"message": message}, **options)


def told(response):
    """The JSON of all frames of a stream that ended."""
    lines = response.get_data().split(b"\n")
    response.close()
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path / "home", "[server]\nhosts = ['timothy.example']\nmax_body_mb = 0.01\n")
    yield house
    house.close()


@pytest.fixture
def client(house):
    app = create_app(house.system, TOKEN)
    app.test_client_class = Client
    return app.test_client()
