"""The shell around a turn: what it shows, what it saves, whom it answers, what it leaves when it goes."""

import time

import msgspec
import pytest
from pykka import messages

from actors.base import Answer
from actors.messages import Answered, AnswerPermission, EndNow, StorageRetrying, Streamed, TurnDied, Wrote
from tests.actors.play import Gate, Probe, call, eventually, kill
from timothy.eventlog import queries
from timothy.eventlog.records import Refused
from timothy.events import (
    Done,
    Error,
    Meta,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    Status,
    TextDelta,
    ToolResult,
    TurnStarted,
)


@pytest.fixture
def gate():
    return Gate()


def answer(turn, permission_id, decision):
    reply = Answer()
    turn.tell(AnswerPermission(permission_id, decision, reply))
    return reply


def shown(claim, kind):
    return [event for event in claim.replay.events() if isinstance(event, kind)]


def asked(claim, count=1):
    """The open permission requests, once there are so many."""
    return eventually(
        lambda: len(shown(claim, PermissionRequest)) >= count and shown(claim, PermissionRequest)
    )


def test_a_turn_from_its_first_event_to_its_last(house):
    claim = house.turn(TextDelta("Half past "), TextDelta("six."), Done("stop"))
    row = house.evidence(claim)
    assert (row.kind, row.payload["text"]) == ("assistant_turn", "Half past six.")
    events = house.over(claim)
    assert [type(event) for event in (events[0], *events[-2:])] == [TurnStarted, Done, Meta]
    (attempt,) = house.system.read(queries.attempts, claim.replay.turn_id)
    assert (attempt["provider"], attempt["status"]) == ("played", "ok")


def test_deltas_that_pile_up_are_merged_in_order_and_one_alone_goes_at_once(house, gate):
    claim = house.turn(TextDelta("a"), gate, Done("stop"))
    eventually(lambda: shown(claim, TextDelta))
    turn = claim.turn
    for number in range(300):
        kind = ReasoningDelta if 100 <= number < 110 else TextDelta
        turn.tell(Streamed(1, kind(f"{number} ")))
    gate.open()
    events = house.over(claim)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == "a" + "".join(f"{number} " for number in range(300) if not 100 <= number < 110)
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)).split() == [
        str(number) for number in range(100, 110)
    ]


def test_a_flood_of_long_deltas_does_not_become_one_event_as_long(house, gate):
    claim = house.turn(TextDelta("a"), gate, Done("stop"))
    eventually(lambda: shown(claim, TextDelta))
    for _ in range(100):
        claim.turn.tell(Streamed(1, TextDelta("x" * 4000)))
    gate.open()
    texts = [event.text for event in house.over(claim) if isinstance(event, TextDelta)]
    assert "".join(texts) == "a" + "x" * 400_000
    assert max(map(len, texts)) < 16_384 + 4000


def test_text_is_saved_while_it_grows_and_while_it_stalls(house, gate):
    claim = house.turn(TextDelta("saved"), gate, Done("stop"))

    def saved():
        rows = house.system.read(
            lambda database: database.execute_sql("SELECT text FROM pending_states").fetchall()
        )
        return "".join(row[0] for row in rows)

    eventually(lambda: saved() == "saved")
    claim.turn.tell(Streamed(1, TextDelta(" and more")))
    eventually(lambda: saved() == "saved and more")
    gate.open()
    house.evidence(claim)
    assert saved() == ""


def test_the_ceiling_ends_a_turn_by_name(house, gate):
    house.system.config = _with(house.system.config, ceiling_s=0.05)
    house.plays([gate, Done("stop")])
    row = house.evidence(house.send(house.session()))
    assert row.payload["code"] == "turn_timeout" and "turn.ceiling_s" in row.payload["message"]


def _with(config, **turn):
    return msgspec.structs.replace(config, turn=msgspec.structs.replace(config.turn, **turn))


# --- permissions ---


def test_a_request_waits_is_listed_and_goes_on_with_the_answer(house):
    gateway = house.plays(call("remember", text="six"), [TextDelta("Noted."), Done("stop")])
    claim = house.send(house.session())
    (request,) = asked(claim)
    eventually(lambda: house.system.pending.get(request.id))
    assert claim.replay.state == "waiting"
    assert answer(claim.turn, request.id, "once").get(10) == Answered("once", first=True)
    assert house.system.read(queries.permission, request.id)["decision"] == "once"  # durable by then
    house.evidence(claim)
    assert house.system.pending.all() == []
    assert [result.status for result in shown(claim, ToolResult)] == ["ok"]
    assert len(gateway.requests) == 2


def test_two_answers_to_one_request_have_one_winner(house):
    house.plays(call("remember", text="six"), [TextDelta("Noted."), Done("stop")])
    claim = house.send(house.session())
    (request,) = asked(claim)
    replies = [answer(claim.turn, request.id, decision) for decision in ("deny", "once", "session")]
    told = [reply.get(10) for reply in replies]
    assert told == [Answered("deny", first=True)] + [Answered("deny", first=False)] * 2
    house.evidence(claim)


def test_each_answer_is_told_when_it_is_durable_itself(house):
    """Two requests are answered together: neither answer is told before its own row."""
    calls = [*call("remember", "c1", text="a")[:2], *call("remember", "c2", text="b")]
    house.plays(calls, [TextDelta("Noted."), Done("stop")])
    claim = house.send(house.session())
    first, second = asked(claim, 2)
    replies = {request.id: answer(claim.turn, request.id, "deny") for request in (second, first)}
    for permission_id, reply in replies.items():
        assert reply.get(10).first
        assert house.system.read(queries.permission, permission_id)["decision"] == "deny"
    house.evidence(claim)


def test_an_answer_for_the_session_is_the_first_answer_to_what_is_asked_alike(house):
    calls = [*call("remember", "c1", text="a")[:2], *call("remember", "c2", text="b")]
    house.plays(calls, [TextDelta("Noted."), Done("stop")])
    claim = house.send(house.session())
    first, second = asked(claim, 2)
    replies = [answer(claim.turn, request.id, "session") for request in (first, second)]
    assert [reply.get(10).first for reply in replies] == [True, False]
    assert house.system.read(queries.permission, second.id)["decision"] == "session"
    house.evidence(claim)
    assert [result.status for result in shown(claim, ToolResult)] == ["ok", "ok"]


def test_nobodys_answer_is_a_timeout_that_the_model_hears(house):
    house.system.config = _with(house.system.config, permission_s=0.05)
    gateway = house.plays(call("remember", text="six"), [TextDelta("Well."), Done("stop")])
    claim = house.send(house.session())
    house.evidence(claim)
    assert [event.decision for event in shown(claim, PermissionResolved)] == ["timeout"]
    assert "Nobody answered" in gateway.requests[1].messages[-1].text


def test_for_this_session_holds_in_the_next_turn_of_the_session(house):
    house.plays(call("remember", text="a"), [TextDelta("x"), Done("stop")])
    session_id = house.session()
    claim = house.send(session_id)
    answer(claim.turn, asked(claim)[0].id, "session").get(10)
    house.evidence(claim)
    house.plays(call("remember", text="b"), [TextDelta("x"), Done("stop")])
    again = house.send(session_id)
    house.evidence(again)
    assert shown(again, PermissionRequest) == []
    house.plays(call("remember", text="c"), [TextDelta("x"), Done("stop")])
    elsewhere = house.send(house.session())
    asked(elsewhere)
    house.stop(elsewhere.replay.session_id)


def test_an_answer_that_meets_the_end_is_told_so_and_not_left_waiting(house):
    house.plays(call("remember", text="a"))
    claim = house.send(house.session())
    (request,) = asked(claim)
    claim.turn.tell(EndNow("stopped", "by the user"))
    reply = answer(claim.turn, request.id, "once") if claim.turn.is_alive() else None
    house.evidence(claim)
    assert reply is None or reply.get(10) in (
        Answered("cancelled", first=False),
        Answered("once", first=True),
    )
    assert house.system.pending.all() == []


def test_an_answer_behind_the_turns_last_message_is_told_so(house):
    house.plays(call("remember", text="a"))
    claim = house.send(house.session())
    (request,) = asked(claim)
    replies = []
    original = house.system.sessions.tell

    def tell(message):  # as the turn tells its end, somebody answers: behind its own order to stop
        if type(message).__name__ == "TurnFinished":
            claim.turn.stop(block=False)
            replies.append(answer(claim.turn, request.id, "once"))
        original(message)

    house.system.sessions.tell = tell
    house.stop(claim.replay.session_id)
    assert replies[0].get(10) == Answered("cancelled", first=False)


# --- the log says no, or fails ---


def test_a_row_that_the_log_refuses_ends_the_turn_by_name(house, gate):
    claim = house.turn(TextDelta("a"), gate)
    eventually(lambda: shown(claim, TextDelta))
    claim.turn.tell(Wrote(claim.replay.session_id, claim.replay.turn_id, "", Refused("append_refused", "no")))
    row = house.evidence(claim)
    assert (row.kind, row.payload["code"]) == ("pending_state", "turn_aborted")


def test_an_outage_is_shown_by_whoever_may_show_at_that_moment(house, gate):
    claim = house.turn(gate, Done("stop"))
    news = StorageRetrying(claim.replay.session_id, claim.replay.turn_id, "full")
    claim.turn.tell(news)
    eventually(lambda: shown(claim, Status))
    assert shown(claim, Status)[0].code == "storage_retrying"
    house.stop(claim.replay.session_id)
    assert isinstance(house.over(claim)[-1], Meta)


def test_an_outage_that_a_dead_turn_did_not_hear_of_is_shown_after_its_start(house, gate):
    claim = house.turn(gate)
    turn, told = claim.turn, Probe()
    house.system.sessions.tell, sessions = told.tell, house.system.sessions.tell
    turn.tell(messages.ProxyGetAttr(attr_path=("killed_by_the_test",)))
    turn.tell(StorageRetrying(claim.replay.session_id, claim.replay.turn_id, "full"))
    assert turn.actor_stopped.wait(10)
    eventually(lambda: len(told.messages) == 2)
    assert [type(message) for message in told.messages] == [TurnDied, StorageRetrying]
    house.system.sessions.tell = sessions
    for message in told.messages:
        sessions(message)
    house.evidence(claim)


def test_a_turn_that_has_told_its_end_shows_nothing_any_more(house, gate):
    """The news of an outage that comes behind the end goes to the session, the only writer by then."""
    claim = house.turn(gate, Done("stop"))
    probe, original = Probe(), house.system.sessions.tell
    news = StorageRetrying(claim.replay.session_id, claim.replay.turn_id, "full")

    def tell(message):
        probe.tell(message)
        if type(message).__name__ == "TurnFinished":
            claim.turn.tell(news)  # it is read after the end was told, before the turn's actor stops
        original(message)

    house.system.sessions.tell = tell
    house.stop(claim.replay.session_id)
    house.evidence(claim)
    eventually(lambda: news in probe.messages)


def test_a_fault_in_the_turn_itself_leaves_what_was_shown(house, gate):
    claim = house.turn(TextDelta("shown"), gate)
    eventually(lambda: shown(claim, TextDelta))
    claim.turn.tell("nonsense")
    row = house.evidence(claim)
    assert (row.payload["text"], row.payload["code"]) == ("shown", "turn_aborted")
    assert "does not understand" in row.payload["message"]
    assert house.system.gateway.cancels[0].cancelled


def test_the_request_of_a_dead_turn_is_closed_and_its_waiting_person_answered(house):
    house.plays(call("remember", text="a"))
    claim = house.send(house.session())
    (request,) = asked(claim)
    kill(claim.turn)
    house.evidence(claim)
    assert house.system.pending.all() == []
    assert [event.decision for event in shown(claim, PermissionResolved)] == ["cancelled"]
    assert house.system.read(queries.permission, request.id)["decision"] == "cancelled"


def test_a_stop_lets_the_provider_go_at_once(house, gate):
    claim = house.turn(TextDelta("a"), gate)
    before = time.monotonic()
    house.stop(claim.replay.session_id)
    assert time.monotonic() - before < 5
    assert house.system.gateway.cancels[0].cancelled
    assert isinstance(house.over(claim)[-2], Error)
