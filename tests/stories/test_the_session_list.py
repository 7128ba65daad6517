"""Sessions are found, named, put away, deleted and branched; pages join without a gap or a repeat."""

import uuid
from typing import Any

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.conftest import TIMERS, Start, entry
from tests.stories.server import Server, eventually


@pytest.fixture
def library(server: Server) -> tuple[str, list[str]]:
    """A word that is in twelve sessions' titles alone, and their ids, the oldest first."""
    mark = uuid.uuid4().hex
    return mark, [server.session(f"{mark} {number}") for number in range(12)]


def pages(server: Server, query: str) -> list[list[dict[str, Any]]]:
    found, cursor = [], ""
    while True:
        answer = server.get(f"/v1/sessions?{query}{cursor}")
        found.append(answer["sessions"])
        if answer["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer['next_cursor']}"


@pytest.mark.parametrize("limit", [1, 5, 6, 12, 50])
def test_pages_join_without_a_gap(server: Server, library: tuple[str, list[str]], limit: int) -> None:
    mark, ids = library
    found = pages(server, f"query={mark}&limit={limit}")
    assert [row["id"] for page in found for row in page] == ids[::-1]
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert found[-1], "a last page is never empty"


def test_a_session_that_becomes_active_between_pages_costs_no_other(
    server: Server, library: tuple[str, list[str]], provider: FakeProvider
) -> None:
    mark, ids = library
    first = server.get(f"/v1/sessions?query={mark}&limit=6")
    server.send(ids[0]).rest()
    second = server.get(f"/v1/sessions?query={mark}&limit=6&cursor={first['next_cursor']}")
    assert [row["id"] for row in first["sessions"] + second["sessions"]] == ids[:0:-1]
    assert server.get("/v1/sessions?limit=1")["sessions"][0]["id"] == ids[0]


def test_search_finds_titles_and_words_as_they_are(server: Server, provider: FakeProvider) -> None:
    mark = uuid.uuid4().hex
    provider.behave("fake", text=f"the answer {mark}-a")
    titled = server.session(f"about {mark}-t")
    talked = server.session("no words in common")
    server.send(talked, f"my {mark}-q 100% sure_thing").rest()
    for words, expected in (
        (f"{mark}-t", [titled]),
        (f"{mark.upper()}-T", [titled]),
        (f"{mark}-q", [talked]),
        (f"{mark}-a", [talked]),
        (mark, [talked, titled]),
        (f"{mark}-q%20100%25", [talked]),
        (f"{mark}%25t", []),
        (f"{mark}_t", []),
        (f"%00{mark}", []),
        ("nothing%20of%20the%20kind", []),
    ):
        found = [row["id"] for row in server.get(f"/v1/sessions?query={words}")["sessions"]]
        assert found == expected, words


def test_a_session_shows_what_it_is(server: Server) -> None:
    answer = server.call("POST", "/v1/sessions", {"title": "My plans"})
    made = answer.json()
    assert made["title"] == "My plans" and uuid.UUID(made["id"])
    row = server.read(made["id"])["session"]
    assert (row["title"], row["archived"], row["turn_active"]) == ("My plans", False, False)
    assert row["created_at"] == made["created_at"] == row["updated_at"]
    assert server.read(server.session())["session"]["title"] is None


def test_the_first_words_name_an_unnamed_session(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    server.send(session, "How do I bake bread?\nWith rye.").rest()
    server.send(session, "And cake?").rest()
    assert server.read(session)["session"]["title"] == "How do I bake bread?"
    named = server.session("Kitchen")
    assert server.send(named, "How do I bake bread?").rest().meta["title"] == "Kitchen"
    assert server.read(named)["session"]["title"] == "Kitchen"


def test_a_model_may_name_a_session_and_no_send_waits_for_it(servers: Start, provider: FakeProvider) -> None:
    config = TIMERS + '[titles]\nby = "model"\nmodel = "namer"\n'
    server = servers(config + entry(provider) + entry(provider, "namer"))
    provider.behave("namer", Behaviour(text='"Rye bread"'), Behaviour(hold="headers"))
    session = server.session()
    assert server.send(session, "How do I bake bread?").rest().meta["title"] is None
    eventually(lambda: server.read(session)["session"]["title"] == "Rye bread")
    other = server.session()
    server.send(other, "And cake?").rest()
    provider.wait_request("namer", 2)
    assert server.send(other, "With cherries?").rest().end == "done"
    assert provider.wait_ended("namer", 2).ended == "client_closed"
    assert server.read(other)["session"]["title"] == "And cake?"
    rows = server.get("/v1/usage?group=provider")["rows"]
    assert [(row["key"], row["attempts"]) for row in rows] == [("fake", 3), ("namer", 2)]


def test_a_session_is_renamed_and_put_away(server: Server) -> None:
    session = server.session("old")
    path = f"/v1/sessions/{session}"
    renamed = server.call("PATCH", path, {"title": "new é"})
    assert (renamed.status_code, renamed.json()["title"], renamed.json()["archived"]) == (200, "new é", False)
    away = server.call("PATCH", path, {"archived": True}).json()
    assert (away["title"], away["archived"]) == ("new é", True)
    assert session in [row["id"] for row in server.get("/v1/sessions?archived=true")["sessions"]]
    assert session not in [
        row["id"] for row in server.get("/v1/sessions?archived=false&limit=500")["sessions"]
    ]
    assert server.call("PATCH", path, {"archived": False}).json()["archived"] is False
    assert server.read(session)["session"]["title"] == "new é"


def test_a_deleted_session_is_gone_with_all_it_held(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    tab = server.send(session).rest()
    assert server.call("DELETE", f"/v1/sessions/{session}").status_code == 204
    for path in ("", "/events", "/live", f"/turns/{tab.turn_id}"):
        assert server.call("GET", f"/v1/sessions/{session}{path}").status_code == 404
    assert server.send(session).status == 404
    assert server.call("DELETE", f"/v1/sessions/{session}").status_code == 404


def test_a_session_in_which_a_turn_runs_is_not_deleted(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=4, hold=2)
    session = server.session()
    tab = server.send(session)
    tab.until("text_delta")
    refused = server.call("DELETE", f"/v1/sessions/{session}")
    assert (refused.status_code, refused.json()["error"]) == (409, "turn_in_flight")
    row = next(row for row in server.get("/v1/sessions")["sessions"] if row["id"] == session)
    assert row["turn_active"] is True
    provider.release("fake")
    assert tab.rest().end == "done"
    assert server.call("DELETE", f"/v1/sessions/{session}").status_code == 204


def branch(server: Server, session: str, seq: Any) -> Any:
    return server.call("POST", "/v1/sessions", {"from": {"session_id": session, "seq": seq}})


def test_a_branch_is_a_copy_up_to_its_point(server: Server, provider: FakeProvider) -> None:
    session = server.session("trunk")
    for text in ("one", "two"):
        server.send(session, text).rest()
    log = server.events(session)
    end_of_first = next(row["seq"] for row in log if row["kind"] == "assistant_turn")
    answer = branch(server, session, end_of_first)
    assert answer.status_code == 201
    copy = answer.json()["id"]
    kept = [(row["kind"], row["payload"]) for row in server.events(copy)]
    assert kept == [(row["kind"], row["payload"]) for row in log[:end_of_first]]
    assert server.events(session) == log
    server.send(copy, "another two").rest()
    said = [m["content"] for m in provider.requests("fake")[-1].body["messages"] if m["role"] == "user"]
    assert said == ["one", "another two"]
    assert [row["id"] for row in server.read(session)["session"]["branches"]] == [copy]


def test_a_branch_at_a_message_answers_it_anew(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(text="first answer"), Behaviour(text="second answer"))
    session = server.session()
    server.send(session, "question").rest()
    asked = next(row["seq"] for row in server.events(session) if row["kind"] == "user_message")
    copy = branch(server, session, asked).json()["id"]
    assert server.retry(copy).rest().text == "second answer"
    assert [item["kind"] for item in server.read(copy)["items"]] == ["user", "assistant"]


def test_a_branch_while_a_turn_runs_copies_what_is_there(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", tokens=4, hold=2)
    session = server.session()
    tab = server.send(session)
    tab.until("text_delta")
    copy = branch(server, session, 2).json()["id"]
    assert server.read(copy)["turn_active"] is False
    provider.release("fake")
    assert tab.rest().end == "done"
    assert server.retry(copy).rest().end == "done"


@pytest.mark.parametrize("seq", [0, -1, 99, "1", 1.5, None, True])
def test_a_branch_from_nowhere_is_a_bad_request(server: Server, seq: Any) -> None:
    answer = branch(server, server.session(), seq)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


def test_a_branch_of_an_unknown_session_is_not_found(server: Server) -> None:
    for unknown in (str(uuid.UUID(int=9)), "x"):
        assert branch(server, unknown, 1).status_code == 404


def test_a_transcript_comes_in_pages_newest_first(server: Server, provider: FakeProvider) -> None:
    session = server.session()
    for number in range(6):
        server.send(session, f"message {number}").rest()
    whole = server.read(session)["items"]
    newest = server.get(f"/v1/sessions/{session}?limit=5")
    assert (newest["items"], newest["more"]) == (whole[-5:], True)
    older = server.get(f"/v1/sessions/{session}?limit=500&before={newest['items'][0]['seq']}")
    assert (older["items"], older["more"]) == (whole[:-5], False)
    log = server.events(session)
    part = server.get(f"/v1/sessions/{session}/events?after=3&limit=4")["events"]
    assert part == log[3:7]
