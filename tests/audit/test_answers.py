"""Many answers to one permission request at once: one counts, and all others hear which."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import requests

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.server import Server

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}


def answered(server: Server, path: str, decision: str) -> requests.Response:
    return server.call("POST", path, {"decision": decision})


def test_a_loser_hears_the_first_answer_also_before_it_is_durable(
    server: Server, provider: FakeProvider
) -> None:
    provider.behave("fake", Behaviour(tools=(WRITE,), text="done"))
    for _ in range(3):
        tab = server.send(server.session(), "write it")
        path = f"/v1/permissions/{tab.until('permission_request')['id']}"
        decisions = ["once", "deny", "once", "deny"]
        with ThreadPoolExecutor(len(decisions)) as people:
            call = partial(answered, server, path)
            given = people.map(call, decisions)
            answers = [(answer.status_code, answer.json()) for answer in given]
        shown = tab.until("permission_resolved")["decision"]
        tab.rest()
        assert sorted(status for status, _ in answers) == [200, 409, 409, 409]
        assert {body["decision"] for _, body in answers} == {shown}
        assert {body["error"] for status, body in answers if status == 409} == {"already_resolved"}
