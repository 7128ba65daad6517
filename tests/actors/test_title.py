"""Naming a session: after-work that waits for nothing and that the next send cancels."""

import time

import pytest

from actors.claims import Claim
from actors.messages import Send, TurnFinished, Write
from actors.title import Naming
from tests.actors.play import Gate, House, PlayedGateway, Probe, eventually
from tests.turn.test_title import ended
from timothy.config import Titles
from timothy.eventlog import queries
from timothy.eventlog.records import AppendRows, BeginTurn, UpdateSession
from timothy.events import AttemptEnded, Done, Error, ReasoningDelta, Status, TextDelta
from timothy.turn.replay import Replay


class Desk:
    """A Naming with a writer that keeps what it is told, and a gateway that plays."""

    def __init__(self, *plays, raw=False, **settings):
        self.writer = Probe()
        self.gateway = PlayedGateway(*plays, raw=raw)
        self.naming = Naming(Titles(**settings), self.gateway, self.writer)

    def begin(self, end=None):
        order = BeginTurn(
            append_id="b", session_id="s", turn_id="t", mode="new", started_at="t0", request_id="r"
        )
        claim = Claim(
            Send("s", order, "How do I bake?", 0.0, Probe()), Replay("s", "t", "t0"), time.monotonic()
        )
        claim.finished = TurnFinished("s", "t", end or ended(text="Like this."), (Done("stop"),))
        self.naming.begin(claim)

    def orders(self, kind):
        return [write.order for write in self.writer.of(Write) if isinstance(write.order, kind)]

    def named(self):
        """The title that was written, once it was; none that a person gave is replaced."""
        eventually(lambda: self.orders(UpdateSession))
        (update,) = self.orders(UpdateSession)
        assert update.only_untitled
        eventually(lambda: not self.naming.running)
        return update.title


def test_first_words_need_no_model():
    desk = Desk()
    desk.begin()
    assert desk.named() == "How do I bake?" and not desk.gateway.requests


def test_a_model_names_a_session_and_the_ledger_knows():
    desk = Desk([TextDelta('"Baking'), TextDelta(' bread"'), Done("stop")], by="model", model="small")
    desk.begin()
    assert desk.named() == "Baking bread"
    assert desk.gateway.requests[0].model == "small"
    (booked,) = desk.orders(AppendRows)
    assert (booked.session_id, booked.turn_id, booked.rows, booked.attempt.status) == ("s", "t", (), "ok")


@pytest.mark.parametrize(
    ("play", "raw"),
    [
        ([Error("overloaded", "no", True)], False),
        ([TextDelta("half"), Error("stream_cut", "cut", True)], False),
        ([TextDelta(" ")], False),
        ([RuntimeError("a driver broke")], True),
    ],
)
def test_a_model_that_fails_leaves_the_first_words(play, raw):
    desk = Desk(play, raw=raw, by="model")
    desk.begin()
    assert desk.named() == "How do I bake?"


def test_a_turn_without_an_answer_asks_no_model():
    desk = Desk(by="model")
    desk.begin(ended("failed", "turn_failed", code="x", message="y"))
    assert desk.named() == "How do I bake?" and not desk.gateway.requests


@pytest.mark.parametrize("end", [lambda naming: naming.cancel("s"), Naming.close])
def test_the_next_send_and_the_servers_end_cancel_it(end):
    gate = Gate()
    desk = Desk([TextDelta("Bak"), gate], by="model")
    desk.begin()
    assert gate.reached.wait(10)
    end(desk.naming)
    assert desk.gateway.cancels[0].cancelled and desk.named() == "How do I bake?"


class Chatter:
    """A play that talks until it is cancelled."""

    def __init__(self, event):
        self.event = event

    def stream(self, request, cancel):
        while not cancel.cancelled:
            time.sleep(0.0001)
            yield self.event
        yield AttemptEnded("p", "m", "stopped", "stopped", 1, 2, None, None, 3, 4, "t0")
        yield Error("stopped", "the answer was stopped", False)


@pytest.mark.parametrize("event", [TextDelta("x" * 100), ReasoningDelta("y" * 100)])
def test_a_model_that_talks_without_end_is_cut_short_and_booked(event):
    desk = Desk(by="model")
    desk.naming.gateway = Chatter(event)
    desk.begin()
    assert desk.named() == "How do I bake?"
    assert [order.attempt.status for order in desk.orders(AppendRows)] == ["stopped"]


def test_a_model_that_only_keeps_the_line_warm_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("actors.title.PATIENCE_S", 0.05)
    desk = Desk(by="model")
    desk.naming.gateway = Chatter(Status("waiting_for_provider", ""))
    desk.begin()
    assert desk.named() == "How do I bake?"


def test_a_shutdown_in_mid_naming_names_the_session_and_books_what_it_cost(tmp_path):
    gate = Gate()
    house = House(tmp_path / "home", '[titles]\nby = "model"\n')
    house.system._naming.gateway = house.plays([TextDelta("Hi"), Done("stop")], [TextDelta("Bak"), gate])
    claim = house.send(house.session(), "How do I bake?")
    assert gate.reached.wait(10)
    house.close()
    after = House(tmp_path / "home")
    assert after.system.read(queries.session, claim.replay.session_id)["title"] == "How do I bake?"
    turn = after.system.read(queries.turn, claim.replay.session_id, claim.replay.turn_id)
    assert len(turn["attempts"]) == 2
    after.close()
