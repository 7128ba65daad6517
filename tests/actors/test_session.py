"""One session: who holds the claim, who is told what, what a dead turn leaves."""

import time

import pytest

from actors.claims import Claims
from actors.messages import (
    Accepted,
    Adopt,
    Busy,
    EndNow,
    Exclusive,
    Idle,
    NotBegun,
    Notify,
    NoTurn,
    OtherTurn,
    Send,
    SessionDied,
    Stop,
    StorageRetrying,
    TurnDied,
    TurnFinished,
    TurnOver,
    Write,
    Wrote,
)
from actors.session import ADOPTIONS, SessionActor, SessionParts
from actors.title import Naming
from tests.actors.play import PlayedGateway, Probe, eventually, kill
from timothy.cancel import Cancel
from timothy.config import Titles
from timothy.eventlog.records import (
    BeginTurn,
    DeleteSession,
    EndTurn,
    Refused,
    Row,
    UpdateSession,
    Written,
)
from timothy.events import Done, Error, Meta, Status, TextDelta, ToolCall, ToolResult, TurnStarted


class TurnProbe(Probe):
    """In place of a TurnActor's ref."""

    alive = True

    def is_alive(self):
        return self.alive


class Desk:
    """A session's actor with probes for everybody around it."""

    def __init__(self):
        self.claims, self.writer, self.sessions = Claims(), Probe(), Probe()
        self.naming = Naming(Titles(), PlayedGateway(), self.writer)
        self.turns, self.notified, self.accepting = [], [], True
        self.given_up = []
        self.start()

    def start(self):
        parts = SessionParts(
            self.claims,
            self.writer,
            self.sessions,
            self._start_turn,
            lambda news, watched: self.notify(news, watched),
            self.naming,
            lambda: self.accepting,
            self.given_up.append,
        )
        self.actor = SessionActor.start("s", parts)

    def notify(self, news, watched):
        self.notified.append(news)

    def _start_turn(self, claim):
        self.turns.append(TurnProbe())
        return self.turns[-1]

    def tell(self, message):
        """Tell, and wait until it was handled."""
        self.actor.ask(message, timeout=10)

    def send(self, turn_id="t", deadline=5.0, **fields):
        """A send that was handled; the probe that hears its answer."""
        probe = Probe()
        ids = {"append_id": f"begin {turn_id}", "session_id": "s", "turn_id": turn_id}
        order = BeginTurn(**ids, mode="new", started_at="t0", payload={"text": "Hello"}, **fields)
        self.tell(Send("s", order, "Hello", time.monotonic() + deadline, probe))
        return probe

    def begun(self, turn_id="t", verdict=None):
        self.tell(Wrote("s", turn_id, "begin", verdict or Written(2)))

    def stop(self, turn_id=None):
        probe = Probe()
        self.tell(Stop("s", turn_id, "stopped", "by the user", probe))
        return probe

    def running(self, turn_id="t"):
        """The claim of a turn that began."""
        self.send(turn_id)
        self.begun(turn_id)
        return self.claims.get("s")

    def finished(self, turn_id="t", kind="assistant_turn"):
        payload = {"text": "Hi", "duration_ms": 5, "finish_reason": "stop"}
        order = end_turn(turn_id, Row(kind, payload))
        self.tell(TurnFinished("s", turn_id, order, (Done("stop"),)))
        return order

    def durable(self, turn_id="t", title="T"):
        self.tell(Wrote("s", turn_id, "evidence", Written(9, title)))

    @property
    def orders(self):
        return [write.order for write in self.writer.of(Write)]


def end_turn(turn_id, *rows, **fields):
    known = {"outcome": "completed", "code": None, "message": None, "usage": None, "cost": 0.5}
    ids = {"append_id": f"end {turn_id}", "session_id": "s", "turn_id": turn_id}
    return EndTurn(**ids, rows=rows, provider="p", model="m", **{**known, **fields})


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.actor.stop()


# --- the claim ---


def test_a_turn_is_accepted_when_it_is_durable_and_not_before(desk):
    probe = desk.send()
    (write,) = desk.writer.messages
    assert (write.order.turn_id, write.token, write.answer_to) == ("t", "begin", desk.sessions)
    assert write.deadline > time.monotonic()
    assert probe.messages == [] and desk.turns == []
    assert desk.claims.replay("s") is None
    desk.begun()
    claim = desk.claims.get("s")
    assert probe.messages == [Accepted("t", claim.replay)]
    assert (claim.user_seq, len(desk.turns), desk.claims.replay("s")) == (2, 1, claim.replay)


def test_a_second_send_loses_and_writes_nothing(desk):
    desk.send("t")
    assert desk.send("u").messages == [Busy("t")]
    desk.begun()
    assert desk.send("v").messages == [Busy("t")]
    assert [order.turn_id for order in desk.orders] == ["t"]


def test_a_repeat_that_meets_its_own_beginning_is_told_when_it_began(desk):
    desk.send("t", idempotency_key="k")
    repeat = desk.send("u", idempotency_key="k")
    other = desk.send("v", idempotency_key="other")
    assert (repeat.messages, other.messages) == ([], [Busy("t")])
    desk.begun()
    assert repeat.messages == [Busy("t")]


def test_a_refused_beginning_frees_the_claim_and_leaves_nothing_running(desk):
    probe = desk.send("t", idempotency_key="k")
    repeat = desk.send("u", idempotency_key="k")
    claim = desk.claims.get("s")
    desk.begun(verdict=Refused("key_used", "why", "old"))
    assert probe.messages == repeat.messages == [NotBegun("key_used", "why", "old")]
    assert desk.claims.get("s") is None and claim.replay.closed
    assert desk.turns == []
    assert desk.send("v").messages == []  # it is free again


def test_a_row_that_the_log_refuses_is_for_the_caller_a_storage_that_cannot(desk):
    probe = desk.send()
    desk.begun(verdict=Refused("append_refused", "why"))
    assert probe.messages == [NotBegun("storage_unavailable", "why")]


def test_an_expired_send_is_refused_without_a_write(desk):
    assert desk.send(deadline=-1).messages[0].code == "storage_unavailable"
    assert desk.writer.messages == [] and desk.claims.get("s") is None


def test_a_server_that_shuts_down_takes_no_send(desk):
    desk.accepting = False
    assert desk.send().messages[0].code == "server_shutdown"
    assert desk.writer.messages == []


def test_a_turn_claimed_as_the_shutdown_began_ends_at_once(desk):
    desk.send()
    desk.accepting = False
    desk.begun()
    assert desk.claims.get("s").end_early == EndNow("server_shutdown", "the server was shut down")


# --- the end ---


def test_the_claim_is_free_before_anyone_can_see_the_end(desk):
    claim = desk.running()
    seen = []
    claim.replay.register(lambda: seen.append(desk.claims.get("s")))
    order = desk.finished()
    assert desk.orders[-1] == order and seen == []
    assert not claim.replay.closed
    desk.durable()
    assert seen and set(seen) == {None}
    assert claim.replay.events() == [
        Done("stop"),
        Meta("s", "completed", "p", "m", None, 0.5, 5, "T"),
    ]
    assert claim.replay.closed


def test_the_first_end_of_a_turn_is_its_end(desk):
    desk.running()
    desk.finished()
    desk.finished()
    desk.tell(TurnDied("s", "t", "late"))
    assert len(desk.orders) == 2


def test_news_of_another_turn_changes_nothing(desk):
    claim = desk.running()
    desk.finished("old")
    desk.tell(TurnDied("s", "old", "x"))
    desk.tell(Wrote("s", "old", "evidence", Written(1)))
    desk.tell(StorageRetrying("s", "old", "full"))
    assert desk.claims.get("s") is claim
    assert len(desk.orders) == 1 and claim.replay.last_seq == 0


def test_the_first_words_become_the_title_when_there_is_none(desk):
    desk.running()
    desk.finished()
    desk.durable(title=None)
    (update,) = [order for order in desk.orders if isinstance(order, UpdateSession)]
    assert (update.title, update.only_untitled) == ("Hello", True)
    desk.running("u")
    desk.finished("u")
    desk.durable("u", title="T")
    assert len([order for order in desk.orders if isinstance(order, UpdateSession)]) == 1


@pytest.mark.parametrize("order", ["send", "delete"])
def test_a_title_in_the_making_yields_to_what_a_person_wants(desk, order):
    making, other = Cancel(), Cancel()
    desk.naming.running |= {("s", making), ("another", other)}
    if order == "send":
        desk.send()
    else:
        desk.tell(Exclusive("s", DeleteSession(append_id="d", session_id="s"), 0.0, Probe()))
    assert making.cancelled and not other.cancelled


def test_the_end_is_told_to_whoever_wants_to_be_notified(desk):
    desk.running()
    desk.finished()
    desk.durable()
    assert desk.notified == [Notify("completed", "s", "t", "T", "Hi")]


def test_whoever_watches_to_the_end_counts_as_watching_the_end(desk):
    claim, watched = desk.running(), []
    desk.notify = lambda news, by_someone: watched.append(by_someone)

    def leaves():
        if claim.replay.closed:
            claim.replay.unregister(leaves)

    claim.replay.register(leaves)
    desk.finished()
    desk.durable()
    assert watched == [True] and not claim.replay.watched


def test_storage_that_fails_is_shown_by_the_turn_while_that_runs_and_then_by_its_session(desk):
    claim = desk.running()
    news = StorageRetrying("s", "t", "disk is full")
    desk.tell(news)
    assert desk.turns[0].messages == [news] and claim.replay.last_seq == 0
    desk.finished()
    desk.tell(news)
    (status,) = claim.replay.events()
    assert (status.code, "disk is full" in status.message) == ("storage_retrying", True)


def test_evidence_that_the_log_refuses_becomes_the_plainest_failure(desk):
    claim = desk.running()
    desk.finished()
    desk.tell(Wrote("s", "t", "evidence", Refused("append_refused", "too long")))
    smallest = desk.orders[-1]
    assert [row.kind for row in smallest.rows] == ["turn_failed"]
    assert smallest.append_id != "end t"
    desk.durable()
    *_, terminal, meta = claim.replay.events()
    assert (terminal.code, meta.outcome) == ("turn_aborted", "failed")


# --- the stop ---


def test_a_stop_is_answered_when_the_end_is_durable(desk):
    claim = desk.running()
    probe = desk.stop("t")
    assert desk.turns[0].messages == [EndNow("stopped", "by the user")]
    assert (claim.replay.state, probe.messages) == ("stopping", [])
    second = desk.stop()
    desk.finished()
    assert probe.messages == []
    desk.durable()
    assert probe.messages == second.messages == [TurnOver("t", "completed")]


def test_a_stop_before_the_beginning_is_kept(desk):
    desk.send()
    probe = desk.stop()
    assert desk.claims.get("s").end_early == EndNow("stopped", "by the user")
    desk.begun(verdict=Refused("not_found", ""))
    assert probe.messages == [NoTurn()]


def test_a_stop_of_nothing_or_of_another_turn_says_so(desk):
    assert desk.stop().messages == [NoTurn()]
    desk.running()
    assert desk.stop("other").messages == [OtherTurn("t")]
    assert desk.turns[0].messages == []


# --- orders that need the session for themselves ---


def exclusive(desk, append_id="d"):
    probe = Probe()
    order = DeleteSession(append_id=append_id, session_id="s")
    desk.tell(Exclusive("s", order, time.monotonic() + 5, probe))
    return probe


def verdict(desk, verdict):
    """The writer's verdict on what it was told last, told; what waited for it comes back by the door."""
    news = Wrote("s", None, desk.writer.messages[-1].token, verdict)
    before = len(desk.sessions.messages)
    desk.tell(news)
    for message in desk.sessions.messages[before:]:
        if isinstance(message, Exclusive | Send):
            desk.tell(message)
    return news


def test_what_comes_while_an_exclusive_order_is_written_goes_on_when_that_is_decided(desk):
    first = exclusive(desk, "d1")
    second, sent, late = exclusive(desk, "d2"), desk.send("u"), desk.send("v", deadline=-1)
    assert [write.order.append_id for write in desk.writer.messages] == ["d1"]
    news = verdict(desk, Written())
    assert (first.messages, second.messages, sent.messages) == ([news], [], [])
    assert [write.order.append_id for write in desk.writer.messages] == ["d1", "d2"]
    gone = verdict(desk, Refused("not_found", "no session s"))
    assert second.messages == [gone]
    assert [write.order.append_id for write in desk.writer.messages] == ["d1", "d2", "begin u"]
    assert late.messages == [Busy("u")]
    desk.begun("u", Refused("not_found", "no session s"))
    assert sent.messages == [NotBegun("not_found", "no session s")]


def test_an_order_that_waited_is_not_given_more_time(desk):
    exclusive(desk, "d1")
    exclusive(desk, "d2")
    before = time.monotonic()
    eventually(lambda: time.monotonic() > before)
    verdict(desk, Written())
    assert desk.writer.messages[-1].deadline <= before + 5


def test_a_successor_writes_an_exclusive_order_again_and_takes_no_old_verdict_for_a_new_one(desk, successor):
    first, second = exclusive(desk, "d1"), exclusive(desk, "d2")
    successor()
    one, again = desk.writer.messages
    assert one == again
    news = verdict(desk, Written())
    assert (first.messages, second.messages) == ([news], [])
    desk.tell(Wrote("s", None, again.token, Refused("not_found", "it is gone already")))
    assert second.messages == []
    gone = verdict(desk, Refused("not_found", "no session s"))
    assert (first.messages, second.messages) == ([news], [gone])


def test_an_exclusive_order_does_not_go_beside_a_turn(desk):
    desk.running()
    assert exclusive(desk).messages == [Busy("t")]
    assert len(desk.orders) == 1


def test_an_actor_without_work_says_that_it_is_idle(desk):
    desk.stop()
    assert desk.sessions.messages[-1] == Idle("s", 1)
    desk.running()
    count = len(desk.sessions.of(Idle))
    desk.finished()
    assert len(desk.sessions.of(Idle)) == count
    desk.durable()
    assert desk.sessions.messages[-1] == Idle("s", 5)


# --- death ---


def test_a_turn_that_died_leaves_what_it_had_shown(desk):
    claim = desk.running()
    call = ToolCall("c", "write_file", {})
    for event in (TurnStarted("s", "t0", "Hello"), TextDelta("Hal"), TextDelta("f"), call):
        claim.replay.append(event)
    desk.tell(TurnDied("s", "t", "ValueError: x"))
    order = desk.orders[-1]
    assert [row.kind for row in order.rows] == ["tool_execution", "pending_state"]
    assert order.rows[-1].payload["text"] == "Half"
    assert (order.code, "ValueError: x" in order.message) == ("turn_aborted", True)
    desk.durable()
    result, error, meta = claim.replay.events()[-3:]
    assert isinstance(result, ToolResult) and result.status == "cancelled"
    assert isinstance(error, Error) and isinstance(meta, Meta)


def test_a_turn_that_died_before_it_showed_anything_still_has_a_start(desk):
    claim = desk.running()
    desk.tell(TurnDied("s", "t", None))
    desk.durable()
    assert [type(event) for event in claim.replay.events()] == [TurnStarted, Error, Meta]


def test_a_dying_actor_leaves_its_unread_messages_to_the_door(desk):
    stop = Stop("s", None, "stopped", "", Probe())
    kill(desk.actor)
    desk.actor.actor_inbox.put(envelope(stop))
    eventually(lambda: stop in desk.sessions.messages)
    assert desk.sessions.of(SessionDied)[0].session_id == "s"
    desk.start()


def envelope(message):
    from pykka._envelope import Envelope

    return Envelope(message)


@pytest.fixture
def successor(desk):
    """Lets the desk's actor die, and gives the new one the claim."""

    def take_over():
        kill(desk.actor)
        desk.start()
        desk.tell(Adopt("s"))

    return take_over


def test_a_successor_repeats_a_beginning_whose_verdict_it_does_not_know(desk, successor):
    probe = desk.send()
    successor()
    first, second = desk.writer.messages
    assert first.order == second.order and first.deadline == second.deadline
    desk.begun()
    desk.begun(verdict=Refused("key_used", ""))  # the repeat's verdict comes too late to matter
    assert len(probe.of(Accepted)) == 1 and len(desk.turns) == 1


def test_a_successor_lets_a_living_turn_go_on(desk, successor):
    desk.running()
    successor()
    assert desk.sessions.of(TurnDied) == []
    probe = desk.stop()
    assert desk.turns[0].messages == [EndNow("stopped", "by the user")]
    desk.finished()
    desk.durable()
    assert probe.messages == [TurnOver("t", "completed")]


def test_a_successor_hears_of_a_dead_turn_after_the_end_that_it_may_have_told(desk, successor):
    desk.running()
    desk.turns[0].alive = False
    successor()
    (died,) = desk.sessions.of(TurnDied)
    order = desk.finished()  # it was on its way
    desk.tell(died)
    assert desk.orders[-1] == order


def test_a_successor_repeats_the_evidence(desk, successor):
    claim = desk.running()
    order = desk.finished()
    successor()
    assert desk.orders[-2:] == [order, order]
    desk.durable()
    desk.durable()
    assert claim.replay.closed and claim.replay.last_seq == 2


def test_a_successor_tells_a_sender_that_its_turn_was_accepted(desk, successor):
    probe = desk.send()
    claim = desk.claims.get("s")
    claim.begun = True  # the predecessor broke right after this
    successor()
    assert probe.messages == [Accepted("t", claim.replay)]
    assert len(desk.sessions.of(TurnDied)) == 1


def test_a_claim_that_kills_one_actor_after_the_other_is_given_up(desk, successor):
    desk.running()
    desk.finished()
    for _ in range(ADOPTIONS):
        successor()
    assert desk.given_up == []
    successor()
    assert desk.given_up == ["session s"]


def test_a_successor_without_a_claim_is_idle(desk, successor):
    successor()
    assert desk.sessions.messages[-1] == Idle("s", 1)


def test_a_message_that_it_does_not_understand_is_an_error(desk):
    with pytest.raises(TypeError, match="does not understand"):
        desk.tell("nonsense")


def test_events_that_are_appended_by_status_keep_their_place(desk):
    claim = desk.running()
    desk.finished()
    desk.tell(StorageRetrying("s", "t", "full"))
    desk.durable()
    assert [type(event) for event in claim.replay.events()] == [Status, Done, Meta]
