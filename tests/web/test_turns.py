"""Send, retry, watch, stop: in this process, where a test can stand between two steps."""

import threading
import uuid

import pykka
import pytest

from actors.messages import Accepted, Write
from tests.actors.play import Gate, eventually
from tests.web.conftest import told
from timothy.errors import NotFound
from timothy.eventlog import attachments, files, queries
from timothy.eventlog.records import BeginTurn
from timothy.events import Done, Error, TextDelta


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def session_id(client):
    return client.session()


@pytest.fixture
def running(house, client, session_id, gate):
    """A turn that has said "Half" and waits at the gate; its id."""
    house.plays([TextDelta("Half"), gate, TextDelta(" past."), Done("stop")])
    answer = client.send(session_id, headers={"Prefer": "respond-async", "Idempotency-Key": "k"})
    assert answer.status_code == 202
    eventually(lambda: client.get(f"/v1/sessions/{session_id}").get_json()["turn"]["last_seq"] == 2)
    return answer.get_json()["turn_id"]


def test_a_stream_is_the_turn_and_names_it(house, client, session_id):
    house.plays([TextDelta("Hi"), Done("stop")])
    answer = client.send(session_id)
    assert answer.status_code == 200
    frames = told(answer)
    assert [frame["type"] for frame in frames] == ["turn_started", "text_delta", "done", "meta"]
    assert [frame["seq"] for frame in frames] == [1, 2, 3, 4]
    assert {frame["turn_id"] for frame in frames} == {answer.headers["X-Turn-Id"]}
    assert answer.headers["X-Session-Id"] == session_id
    assert frames[0]["message"] == "Hello"


def test_a_running_turn_is_shown_by_every_way_to_look(client, session_id, running):
    page = client.get(f"/v1/sessions/{session_id}").get_json()
    assert page["turn_active"] is True
    assert (page["turn"]["id"], page["turn"]["state"]) == (running, "running")
    assert client.get(f"/v1/sessions/{session_id}/turns/{running}").get_json()["state"] == "running"
    (listed,) = client.get("/v1/sessions").get_json()["sessions"]
    assert listed["turn_active"] is True
    metrics = client.get("/metrics").get_data(as_text=True)
    assert "timothy_turns_running 1\n" in metrics


def test_a_second_message_loses(client, session_id, running):
    answer = client.send(session_id)
    assert answer.status_code == 409
    assert (answer.get_json()["error"], answer.get_json()["turn_id"]) == ("turn_in_flight", running)
    retry = client.post(f"/v1/sessions/{session_id}/messages/retry")
    assert (retry.status_code, retry.get_json()["turn_id"]) == (409, running)
    assert client.delete(f"/v1/sessions/{session_id}").status_code == 409


def test_a_repeat_of_a_running_turn_follows_it_from_its_start(client, session_id, running, gate):
    answer = client.send(session_id, headers={"Idempotency-Key": "k"})
    gate.open()
    frames = told(answer)
    assert answer.headers["Idempotent-Replayed"] == "true"
    assert (frames[0]["type"], frames[0]["seq"], frames[-1]["type"]) == ("turn_started", 1, "meta")
    assert "".join(frame.get("text", "") for frame in frames) == "Half past."


def test_a_repeat_after_the_end_is_told_from_the_log(client, session_id, running, gate):
    gate.open()
    eventually(lambda: not client.get(f"/v1/sessions/{session_id}").get_json()["turn_active"])
    frames = told(client.send(session_id, headers={"Idempotency-Key": "k"}))
    assert [frame["type"] for frame in frames] == ["turn_started", "text_delta", "done", "meta"]
    assert frames[1]["text"] == "Half past."
    answer = client.send(session_id, headers={"Idempotency-Key": "k", "Prefer": "respond-async"})
    assert (answer.status_code, answer.get_json()["turn_id"]) == (202, running)
    assert answer.headers["Idempotent-Replayed"] == "true"


def test_a_repeat_between_durable_and_known_to_be_durable_is_followed(house, client, session_id, gate):
    """The turn's row is in the database, but its session has not heard of it yet."""
    house.plays([gate, TextDelta("Hi"), Done("stop")])
    seen, original = [], house.system.sessions.tell

    def tell(message):
        if getattr(message, "token", "") == "begin" and not seen:
            seen.append(client.send(session_id, headers={"Idempotency-Key": "k"}))
        original(message)

    house.system.sessions.tell = tell
    house.system.claims.replay = lambda _: None  # as long as nobody has heard of the verdict
    first = house.ask(session_id, idempotency_key="k")
    assert isinstance(first, Accepted)
    gate.open()
    assert seen[0].status_code == 200
    assert told(seen[0])[-1]["type"] == "meta"


@pytest.mark.parametrize(
    ("path", "body"), [("messages", {"message": "Other"}), ("messages/retry", {"mode": "again"})]
)
def test_the_same_key_with_another_message_is_refused(client, session_id, running, path, body):
    answer = client.post(f"/v1/sessions/{session_id}/{path}", json=body, headers={"Idempotency-Key": "k"})
    assert (answer.status_code, answer.get_json()["error"]) == (422, "idempotency_mismatch")


def test_a_watcher_sees_the_same_frames_from_its_cursor_on(client, session_id, running, gate):
    whole = client.get(f"/v1/sessions/{session_id}/live")
    rest = client.get(f"/v1/sessions/{session_id}/live?after={running}:2")
    gate.open()
    frames = told(whole)
    assert told(rest) == frames[2:]


def test_asking_for_the_head_of_a_stream_leaves_no_viewer_behind(house, client, session_id, running):
    before = len(house.system.viewers), len(pykka.ActorRegistry.get_all())
    answer = client.head(f"/v1/sessions/{session_id}/live")
    assert (answer.status_code, answer.get_data()) == (200, b"")
    answer.close()
    assert (len(house.system.viewers), len(pykka.ActorRegistry.get_all())) == before


def test_nothing_is_to_be_watched_when_nothing_runs(client, session_id):
    answer = client.get(f"/v1/sessions/{session_id}/live")
    assert (answer.status_code, answer.get_json()["error"]) == (404, "no_active_turn")


def test_a_stop_is_answered_with_the_durable_end(client, session_id, running):
    other = client.post(f"/v1/sessions/{session_id}/stop", json={"turn_id": str(uuid.uuid4())})
    assert (other.status_code, other.get_json()["error"]) == (409, "turn_mismatch")
    answer = client.post(f"/v1/sessions/{session_id}/stop", json={"turn_id": running.upper()})
    assert answer.get_json() == {"turn_id": running, "outcome": "stopped"}
    items = client.get(f"/v1/sessions/{session_id}").get_json()["items"]
    assert (items[-1]["kind"], items[-1]["text"], items[-1]["code"]) == ("partial", "Half", "stopped")
    again = client.post(f"/v1/sessions/{session_id}/stop")
    assert (again.status_code, again.get_json()["error"]) == (404, "no_active_turn")


def test_a_stop_that_takes_long_says_that_it_is_stopping(house, client, session_id, running, monkeypatch):
    monkeypatch.setattr("web.turns.STOP_S", 0.05)
    hold, original = threading.Event(), house.system.persistence.tell
    kept = []
    monkeypatch.setattr(house.system.persistence, "tell", kept.append)
    answer = client.post(f"/v1/sessions/{session_id}/stop")
    assert (answer.status_code, answer.get_json()) == (202, {"turn_id": running, "state": "stopping"})
    page = client.get(f"/v1/sessions/{session_id}").get_json()
    assert page["turn"]["state"] == "stopping"
    monkeypatch.undo()
    for write in kept:
        original(write)
    hold.set()


def test_a_whole_answer_is_not_retried_and_a_failure_is(house, client, session_id):
    retry = f"/v1/sessions/{session_id}/messages/retry"
    assert client.post(retry).get_json()["error"] == "no_retryable_turn"
    house.plays([Error("overloaded", "busy", True)], [TextDelta("Hi"), Done("stop")])
    assert told(client.send(session_id))[-2]["code"] == "overloaded"
    assert told(client.post(retry))[-1]["outcome"] == "completed"
    assert client.post(retry).status_code == 409
    kinds = [row["kind"] for row in client.get(f"/v1/sessions/{session_id}/events").get_json()["events"]]
    assert kinds.count("user_message") == 1


def test_continue_gives_the_model_its_own_partial_to_go_on_with(house, client, session_id):
    gateway = house.plays(
        [TextDelta("Half"), Error("stream_cut", "cut", True)], [TextDelta(" past."), Done("stop")]
    )
    told(client.send(session_id))
    told(client.post(f"/v1/sessions/{session_id}/messages/retry", json={"mode": "continue"}))
    request = gateway.requests[1]
    assert request.continues
    assert [(message.role, message.text) for message in request.messages] == [
        ("user", "Hello"),
        ("assistant", "Half"),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "message"),
        ({"message": " "}, "empty"),
        ({"message": 7}, "string"),
        ({"message": "a", "attachments": "x"}, "list"),
        ({"message": "a", "attachments": [{}]}, "attachments"),
    ],
)
def test_a_wrong_message_is_refused_and_leaves_nothing(client, session_id, body, words):
    answer = client.post(f"/v1/sessions/{session_id}/messages", json=body)
    assert answer.status_code == 400 and words in answer.get_json()["message"]
    assert len(client.get(f"/v1/sessions/{session_id}/events").get_json()["events"]) == 1


def test_an_unknown_model_is_named_with_those_that_there_are(client, session_id):
    answer = client.post(f"/v1/sessions/{session_id}/messages", json={"message": "a", "model": "gpt-99"})
    assert (answer.status_code, answer.get_json()["error"]) == (400, "unknown_model")
    assert "there are: s" in answer.get_json()["message"]


def test_an_attached_file_is_kept_and_can_be_had(house, client, session_id):
    gateway = house.plays([TextDelta("I see."), Done("stop")])
    file = {"name": "a.txt", "media_type": "text/plain", "text": "six"}
    body = {"message": "look", "attachments": [file]}
    told(client.post(f"/v1/sessions/{session_id}/messages", json=body))
    assert gateway.requests[0].messages[-1].text == "look\n\n[a.txt]\nsix"
    (kept,) = client.get(f"/v1/sessions/{session_id}").get_json()["items"][0]["attachments"]
    answer = client.get(f"/v1/attachments/{kept['sha256']}?media_type=text/html")
    assert (answer.get_data(), answer.content_type) == (b"six", "text/plain; charset=utf-8")


def test_an_attached_file_goes_with_the_last_session_that_names_it(house, client, session_id):
    house.plays([TextDelta("I see."), Done("stop")])
    file = {"name": "a.txt", "media_type": "text/plain", "text": "six"}
    told(client.post(f"/v1/sessions/{session_id}/messages", json={"message": "a", "attachments": [file]}))
    (kept,) = client.get(f"/v1/sessions/{session_id}").get_json()["items"][0]["attachments"]
    branch = client.session(**{"from": {"session_id": session_id, "seq": 2}})
    statuses = []
    for name in (session_id, branch):
        assert client.delete(f"/v1/sessions/{name}").status_code == 204
        statuses.append(client.get(f"/v1/attachments/{kept['sha256']}").status_code)
    assert statuses == [200, 404]


def test_a_message_that_is_not_decided_on_keeps_its_files(house):
    (kept,) = attachments.keep(house.system.home, [attachments.Attachment("a", "text/plain", text="six")])
    ids = {"append_id": "a", "session_id": "s", "turn_id": "t", "mode": "new", "started_at": ""}
    waiting = Write(BeginTurn(**ids, payload={"text": "look", "attachments": [kept]}))
    house.system.backlog.pending.append(waiting)
    house.system.tidy_files()
    assert attachments.content(house.system.home, kept["sha256"]) == b"six"
    house.system.backlog.pending.remove(waiting)
    house.system.tidy_files()
    with pytest.raises(NotFound):
        attachments.content(house.system.home, kept["sha256"])


def test_files_that_cannot_be_tidied_up_are_told_of_and_a_session_is_deleted_all_the_same(
    house, client, session_id, monkeypatch, caplog
):
    def fails(home):
        raise OSError("the disk is gone")

    monkeypatch.setattr(files, "tidy", fails)
    assert client.delete(f"/v1/sessions/{session_id}").status_code == 204
    assert "could not be removed: the disk is gone" in caplog.text


def test_the_request_id_is_kept_on_the_turn_and_sent_on(house, client, session_id):
    gateway = house.plays([TextDelta("Hi"), Done("stop")])
    answer = client.send(session_id, headers={"X-Request-Id": "mine-7"})
    told(answer)
    turn = house.system.read(queries.turn, session_id, answer.headers["X-Turn-Id"])
    assert turn["request_id"] == gateway.requests[0].request_id == "mine-7"
