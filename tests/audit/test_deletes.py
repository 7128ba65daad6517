"""A delete meets a send, or another delete: each hears what is true, and nobody of a turn that is none."""

from concurrent.futures import ThreadPoolExecutor

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.server import Server


def test_a_send_beside_a_delete_either_runs_or_finds_nothing(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", *[Behaviour(tokens=1, hold=1)] * 10)
    for _ in range(10):
        path = f"/v1/sessions/{server.session()}"
        with ThreadPoolExecutor(2) as people:
            deleting = people.submit(server.call, "DELETE", path)
            sending = people.submit(
                server.call, "POST", f"{path}/messages", {"message": "hi"}, Prefer="respond-async"
            )
            deleted, sent = deleting.result(), sending.result()
        assert (deleted.status_code, sent.status_code) in ((204, 404), (409, 202)), (deleted.text, sent.text)
        if sent.status_code == 202:
            assert deleted.json()["turn_id"] == sent.json()["turn_id"]
    provider.release("fake")


def test_of_two_deletes_at_once_one_finds_nothing(server: Server) -> None:
    for _ in range(10):
        path = f"/v1/sessions/{server.session()}"
        with ThreadPoolExecutor(2) as people:
            deletes = people.map(lambda path: server.call("DELETE", path).status_code, [path, path])
        assert sorted(deletes) == [204, 404]
