"""The whole house: whatever dies in mid-turn, evidence lands; whatever stops, stops in order."""

import threading
import time
import uuid

import peewee
import pytest

from actors import persistence
from actors import system as systems
from actors.base import Answer
from actors.messages import Accepted, Busy, EndNow, Exclusive, NoTurn, OtherTurn, TurnOver, Write, Wrote
from tests.actors.play import Gate, House, call, eventually, kill
from timothy.errors import HomeLocked, StartError, StorageUnavailable
from timothy.eventlog import queries
from timothy.eventlog.records import CreateSession, DeleteSession, Refused, Written
from timothy.events import Done, Status, TextDelta, ToolResult, TurnStarted


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def claim(house, gate):
    """A turn that has shown "Half" and waits in its gateway; opened, it says " past six."."""
    claim = house.turn(TextDelta("Half"), gate, TextDelta(" past six."), Done("stop"))
    eventually(lambda: any(isinstance(event, TextDelta) for event in claim.replay.events()))
    return claim


def session_actor(house, claim):
    return house.system._rooms.rooms[claim.replay.session_id].session


# --- death in mid-turn ---


def test_a_turn_that_dies_leaves_what_it_had_shown(house, claim):
    kill(claim.turn)
    row = house.evidence(claim)
    assert (row.kind, row.payload["text"], row.payload["code"]) == ("pending_state", "Half", "turn_aborted")


@pytest.mark.parametrize("name", ["session", "sessions", "persistence", "clock"])
def test_a_turn_outlives_the_death_of_any_actor_around_it(house, claim, gate, name):
    kill(session_actor(house, claim) if name == "session" else getattr(house.system, name)._reference)
    gate.open()
    row = house.evidence(claim)
    assert (row.kind, row.payload["text"]) == ("assistant_turn", "Half past six.")


@pytest.mark.parametrize("name", ["session", "sessions", "persistence", "clock"])
def test_a_stop_is_answered_after_the_death_of_any_actor_around_the_turn(house, claim, name):
    kill(session_actor(house, claim) if name == "session" else getattr(house.system, name)._reference)
    assert house.stop(claim.replay.session_id) == TurnOver(claim.replay.turn_id, "stopped")
    assert house.evidence(claim).payload["code"] == "stopped"


def test_turn_and_session_die_together_and_evidence_lands(house, claim):
    session = session_actor(house, claim)
    kill(claim.turn)
    kill(session)
    row = house.evidence(claim)
    assert (row.payload["text"], row.payload["code"]) == ("Half", "turn_aborted")


def test_everything_dies_at_once_and_evidence_lands(house, claim):
    session = session_actor(house, claim)
    for actor in (
        session,
        *(getattr(house.system, n)._reference for n in ("sessions", "persistence", "clock")),
    ):
        kill(actor)
    kill(claim.turn)
    assert house.evidence(claim).payload["text"] == "Half"


@pytest.mark.parametrize(
    ("play", "code"),
    [
        ([TextDelta("Half"), ValueError("broken")], "turn_aborted"),
        ([TextDelta("Half")], "turn_aborted"),
        ([ValueError("broken")], "turn_aborted"),
    ],
    ids=["breaks after text", "ends without a word", "breaks at once"],
)
def test_a_stream_worker_that_dies_ends_its_turn_by_name(house, play, code):
    claim = house.turn(*play, raw=True)
    row = house.evidence(claim)
    assert row.payload["code"] == code


def test_a_context_that_cannot_be_read_ends_the_turn_by_name(house, monkeypatch):
    def broken(*_):
        raise peewee.DatabaseError("malformed")

    monkeypatch.setattr(house.system._context, "read", broken)
    claim = house.turn(TextDelta("never"), Done("stop"))
    assert "malformed" in house.evidence(claim).payload["message"]


class Probing:
    """A tool of the tests."""

    name, description, danger, native = "probe", "probes", "read", False
    schema = {"type": "object"}

    def __init__(self, run):
        self._run = run

    def subject(self, input):
        return ""

    def rationale(self, input):
        return "It probes."

    def run(self, input, context, cancel):
        return self._run(cancel)


def test_a_tool_worker_that_breaks_is_the_calls_error_and_the_turn_goes_on(house):
    house.system.toolbox.tools["probe"] = Probing(lambda cancel: 1 / 0)
    house.plays(call("probe"), [TextDelta("Sorry."), Done("stop")])
    claim = house.send(house.session())
    assert house.evidence(claim).payload["text"] == "Sorry."
    (result,) = [event for event in claim.replay.events() if isinstance(event, ToolResult)]
    assert (result.status, "ZeroDivisionError" in result.preview) == ("error", True)


def test_a_turn_that_dies_in_a_tool_cancels_the_tool_and_says_so(house):
    cancels, began = [], threading.Event()

    def run(cancel):
        cancels.append(cancel)
        began.set()
        cancel.wait(20)
        return "late"

    house.system.toolbox.tools["probe"] = Probing(run)
    house.plays(call("probe"))
    claim = house.send(house.session())
    assert began.wait(10)
    kill(claim.turn)
    house.evidence(claim)
    assert cancels[0].cancelled
    rows = house.system.read(queries.turn_records, claim.replay.turn_id)
    assert [row.payload["status"] for row in rows if row.kind == "tool_execution"] == ["cancelled"]


def test_a_session_is_free_for_the_next_turn_after_any_death(house, claim):
    kill(claim.turn)
    house.evidence(claim)
    house.plays([TextDelta("Again."), Done("stop")])
    assert house.evidence(house.send(claim.replay.session_id)).payload["text"] == "Again."


# --- the claim ---


def test_of_many_sends_at_once_one_wins_and_the_others_write_nothing(house, gate):
    house.plays([gate, TextDelta("x"), Done("stop")])
    session_id, answers = house.session(), []
    senders = [threading.Thread(target=lambda: answers.append(house.ask(session_id))) for _ in range(12)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sorted(type(answer).__name__ for answer in answers) == ["Accepted"] + ["Busy"] * 11
    (winner,) = [answer for answer in answers if isinstance(answer, Accepted)]
    assert {answer.turn_id for answer in answers if isinstance(answer, Busy)} == {winner.turn_id}
    gate.open()
    eventually(lambda: winner.replay.closed)
    rows = house.system.read(queries.events, session_id, 0, 100)
    assert [row.kind for row in rows].count("user_message") == 1


def test_the_next_send_never_meets_the_turn_that_just_ended(house):
    house.plays([TextDelta("x"), Done("stop")])
    session_id = house.session()
    for _ in range(25):
        accepted = house.ask(session_id)
        assert isinstance(accepted, Accepted)
        cursor = 0
        while not accepted.replay.closed or cursor < accepted.replay.last_seq:
            _, cursor = accepted.replay.read(cursor)
            time.sleep(0.001)


def test_stops_are_answered_by_what_runs(house, claim):
    session_id = claim.replay.session_id
    assert house.stop(session_id, str(uuid.uuid4())) == OtherTurn(claim.replay.turn_id)
    answers = []
    stoppers = [threading.Thread(target=lambda: answers.append(house.stop(session_id))) for _ in range(4)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join()
    assert set(answers) <= {TurnOver(claim.replay.turn_id, "stopped"), NoTurn()}
    assert house.stop(session_id) == NoTurn()


def test_a_send_to_a_session_that_is_not_there_leaves_nothing(house):
    answer = house.ask(str(uuid.uuid4()))
    assert answer.code == "not_found"
    eventually(lambda: len(house.system.claims) == 0 and not house.system._rooms.rooms)


def test_a_session_is_not_deleted_under_its_turn(house, claim, gate):
    answer = Answer()
    order = DeleteSession(append_id="d", session_id=claim.replay.session_id)
    house.system.sessions.tell(Exclusive(claim.replay.session_id, order, time.monotonic() + 5, answer))
    assert answer.get(10) == Busy(claim.replay.turn_id)
    gate.open()
    house.over(claim)
    answer = Answer()
    house.system.sessions.tell(Exclusive(claim.replay.session_id, order, time.monotonic() + 5, answer))
    news = answer.get(10)
    assert isinstance(news, Wrote) and isinstance(news.verdict, Written)
    assert house.system.read(queries.session, claim.replay.session_id) is None


def test_actors_of_idle_sessions_go(house):
    house.plays([TextDelta("x"), Done("stop")])
    for _ in range(10):
        house.over(house.send(house.session()))
    eventually(lambda: not house.system._rooms.rooms)


# --- storage ---


@pytest.fixture
def storage(tmp_path, monkeypatch):
    """A house whose commits can fail."""
    monkeypatch.setattr(persistence, "RETRY_S", 0.02)
    commits = []

    class Watched(systems.Writer):
        def commit(self, orders):
            if commits and commits[0] is not None:
                raise commits[0]
            return super().commit(orders)

    monkeypatch.setattr(systems, "Writer", Watched)
    house = House(tmp_path / "home")
    commits.append(None)

    def fail(error):
        commits[0] = error

    yield house, fail
    fail(None)
    house.close()


def test_an_outage_in_mid_turn_is_shown_and_the_evidence_lands_by_itself(storage, gate):
    house, fail = storage
    claim = house.turn(TextDelta("Half"), gate, TextDelta(" past six."), Done("stop"))
    fail(peewee.OperationalError("database or disk is full"))
    gate.open()
    eventually(lambda: any(isinstance(event, Status) for event in claim.replay.events()))
    assert house.system.claims.get(claim.replay.session_id) is claim  # the claim is held
    assert not claim.replay.closed
    assert house.system.backlog.fault == "database or disk is full"
    fail(None)
    assert house.evidence(claim).payload["text"] == "Half past six."
    events = claim.replay.events()
    assert [event.code for event in events if isinstance(event, Status)] == ["storage_retrying"]
    eventually(lambda: house.system.backlog.fault is None)


def test_a_write_that_cannot_be_saved_in_time_is_refused_and_leaves_nothing(storage, monkeypatch):
    house, fail = storage
    monkeypatch.setattr(systems, "WRITE_S", 0.05)
    fail(OSError("disk is full"))
    session_id = str(uuid.uuid4())
    with pytest.raises(StorageUnavailable, match="disk is full"):
        house.system.write(CreateSession(append_id="a", session_id=session_id, title=None))
    fail(None)
    eventually(lambda: house.system.backlog.fault is None)
    assert house.system.read(queries.session, session_id) is None


def test_a_stop_in_an_outage_is_answered_when_the_evidence_landed(storage, gate):
    house, fail = storage
    claim = house.turn(TextDelta("Half"), gate)
    fail(OSError("disk is full"))
    answers = []
    stopper = threading.Thread(target=lambda: answers.append(house.stop(claim.replay.session_id)))
    stopper.start()
    eventually(lambda: any(isinstance(event, Status) for event in claim.replay.events()))
    assert answers == []
    fail(None)
    stopper.join(10)
    assert answers == [TurnOver(claim.replay.turn_id, "stopped")]


def test_a_verdict_for_web_is_given_as_it_is(house):
    order = CreateSession(append_id="a", session_id="s", title=None)
    assert isinstance(house.system.write(order), Written)
    assert isinstance(house.system.write(order), Written)
    other = CreateSession(append_id="b", session_id="s", title=None)
    assert isinstance(house.system.write(other), Refused)


# --- start and stop ---


def test_a_shutdown_ends_running_turns_by_name_and_takes_no_new_ones(house, claim):
    house.system.end_turns()
    row = house.evidence(claim)
    assert (row.payload["code"], row.payload["text"]) == ("server_shutdown", "Half")
    turn = house.system.read(queries.turn, claim.replay.session_id, claim.replay.turn_id)
    assert turn["outcome"] == "interrupted"
    assert house.ask(claim.replay.session_id).code == "server_shutdown"


def test_a_shutdown_waits_for_no_viewer_for_ever(house, claim):
    before = time.monotonic()
    house.system.viewers.add(object())
    house.system.end_turns()
    house.system.viewers._viewers.clear()
    assert 0.9 < time.monotonic() - before < 5


def test_a_home_has_one_house_and_is_free_when_that_is_closed(tmp_path):
    first = House(tmp_path / "home")
    with pytest.raises(HomeLocked):
        House(tmp_path / "home")
    first.close()
    House(tmp_path / "home").close()


def test_a_house_that_cannot_open_leaves_nothing_open(tmp_path, monkeypatch):
    House(tmp_path / "home").close()
    before = threading.active_count()
    with monkeypatch.context() as broken:
        broken.setattr(systems.Sessions, "start", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            House(tmp_path / "home")
    eventually(lambda: threading.active_count() <= before)
    House(tmp_path / "home").close()


def test_a_log_that_cannot_be_opened_is_a_reason_not_to_start(tmp_path, monkeypatch):
    home = tmp_path / "home"
    House(home).close()
    with monkeypatch.context() as full:
        full.setattr(systems, "recover", lambda *_: database_error("database or disk is full"))
        with pytest.raises(StartError, match="disk is full"):
            House(home)
    (home / "timothy.db").write_bytes(b"this is no database" * 1000)
    with pytest.raises(StartError, match="not a database"):
        House(home)


def database_error(reason):
    raise peewee.OperationalError(reason)


def test_a_shutdown_in_an_outage_ends_in_time_and_the_next_start_settles_it(storage, gate, monkeypatch):
    house, fail = storage
    left = []
    monkeypatch.setattr(systems.os, "_exit", left.append)
    monkeypatch.setattr(systems, "NO_CLAIM_S", 0.3)
    claim = house.turn(TextDelta("Half"), gate)
    eventually(lambda: house.system.read(_pieces) == 1)
    fail(OSError("disk is full"))
    began = time.monotonic()
    house.close()
    assert time.monotonic() - began < 2
    assert left == []  # in order, and not because an actor died over and over
    fail(None)
    after = House(house.system.home)
    assert [turn.turn_id for turn in after.system.recovered] == [claim.replay.turn_id]
    after.close()


def test_what_was_told_before_the_shutdown_is_written(tmp_path):
    house = House(tmp_path / "home")
    orders = [CreateSession(append_id=f"a{n}", session_id=str(uuid.uuid4()), title=None) for n in range(50)]
    for order in orders:
        house.system.persistence.tell(Write(order))
    house.close()
    after = House(tmp_path / "home")
    assert all(after.system.read(queries.session, order.session_id) for order in orders)
    after.close()


def _pieces(database):
    return database.execute_sql("SELECT COUNT(*) FROM pending_states").fetchone()[0]


def test_a_turn_that_a_crash_left_is_ended_before_the_house_opens(tmp_path):
    house, gate = House(tmp_path / "home"), Gate()
    claim = house.turn(TextDelta("Half"), gate)
    eventually(lambda: house.system.read(_pieces))
    copy = tmp_path / "copy"
    copy.mkdir()
    house.system._native(
        lambda: house.system._writer._database.execute_sql(f"VACUUM INTO '{copy / 'timothy.db'}'")
    )
    house.close()
    after = House(copy)
    (recovered,) = after.system.recovered
    assert (recovered.turn_id, recovered.characters) == (claim.replay.turn_id, 4)
    rows = after.system.read(queries.turn_records, claim.replay.turn_id)
    assert (rows[-1].payload["text"], rows[-1].payload["code"]) == ("Half", "interrupted")
    after.close()


def test_a_closed_house_leaves_no_thread_behind(tmp_path):
    House(tmp_path / "first").close()
    before = threading.active_count()
    house = House(tmp_path / "home")
    house.over(house.turn(TextDelta("x"), Done("stop")))
    house.close()
    eventually(lambda: threading.active_count() <= before)


def test_a_permanent_actor_that_cannot_be_kept_ends_the_process(monkeypatch):
    left = []
    monkeypatch.setattr(systems.os, "_exit", left.append)
    systems._give_up("persistence")
    assert left == [70]


def test_the_first_event_is_the_turns_start_with_the_message(house):
    claim = house.turn(TextDelta("x"), Done("stop"))
    started = house.over(claim)[0]
    assert isinstance(started, TurnStarted)
    assert (started.message, started.session_id) == ("Hello", claim.replay.session_id)


@pytest.mark.parametrize("end", ["stop", "ceiling", "death", "shutdown"])
def test_a_turn_ends_at_once_while_its_calls_are_judged(house, monkeypatch, end):
    judging, done = threading.Event(), threading.Event()

    def judge(calls, granted, switched_off):
        judging.set()
        assert done.wait(20)
        return {}, {call.call_id: "late" for call in calls}

    monkeypatch.setattr(house.system.toolbox, "judge", judge)
    house.plays(call("probe"))
    claim = house.send(house.session())
    assert judging.wait(10)
    if end == "stop":
        assert house.stop(claim.replay.session_id) == TurnOver(claim.replay.turn_id, "stopped")
    elif end == "ceiling":
        claim.turn.tell(EndNow("turn_timeout", "too long"))
    elif end == "death":
        kill(claim.turn)
    else:
        house.system.end_turns()
    codes = {
        "stop": "stopped",
        "ceiling": "turn_timeout",
        "death": "turn_aborted",
        "shutdown": "server_shutdown",
    }
    assert house.evidence(claim).payload["code"] == codes[end]
    done.set()
    rows = house.system.read(queries.turn_records, claim.replay.turn_id)
    assert [row.payload["status"] for row in rows if row.kind == "tool_execution"] == ["cancelled"]
