"""A viewer in Python sees every event of its turn once, and one end, whatever the line does."""

import pytest

from tests.client.contract_server import (
    OTHER_TURN,
    SESSION,
    TURN,
    Answer,
    ContractServer,
    Held,
    Reset,
    as_json,
    frames,
    refused,
    streamed,
)
from timothy.client import Client
from timothy.errors import NotFound, ServerUnreachable, Unauthorized
from timothy.events import Done, Error, Event, Incomplete, Meta, Status, TextDelta, Tokens, TurnStarted

MESSAGES = f"POST /v1/sessions/{SESSION}/messages"
LIVE = f"GET /v1/sessions/{SESSION}/live"
TURN_CALL = f"GET /v1/sessions/{SESSION}/turns/{TURN}"
SESSION_CALL = f"GET /v1/sessions/{SESSION}"

STARTED = TurnStarted(SESSION, "2030-01-02T03:04:05Z", "Hello?")
META = Meta(SESSION, "completed", "home", "tiny", Tokens(3, 2, 0), None, 12, None)
WHOLE: list[Event] = [STARTED, TextDelta("Hel"), TextDelta("lo.\u2028"), Done("stop"), META]


def ended(outcome: str, code: str | None = None, message: str | None = None) -> Answer:
    return as_json(
        {
            "id": TURN,
            "session_id": SESSION,
            "state": "ended",
            "outcome": outcome,
            "code": code,
            "message": message,
            "started_at": STARTED.started_at,
            "ended_at": "2030-01-02T03:04:06Z",
            "usage": {"input_tokens": 3, "output_tokens": 2, "cached_tokens": 0},
            "cost": None,
            "provider": "home",
            "model": "tiny",
            "attempts": [],
        }
    )


def transcript(**evidence: object) -> Answer:
    session = {"id": SESSION, "title": "Greeting", "created_at": STARTED.started_at}
    asked = {"seq": 2, "turn_id": TURN, "kind": "user", "created_at": STARTED.started_at, "text": "Hello?"}
    items = [asked, {"seq": 3, "turn_id": TURN, "created_at": STARTED.started_at, **evidence}]
    return as_json({"session": session, "items": items, "more": False, "turn_active": False, "turn": None})


def test_a_turn_is_yielded_as_typed_events_up_to_meta(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, streamed(b": connected\n", *frames(*WHOLE)))
    with client.send(SESSION, "Hello?") as turn:
        assert list(turn) == WHOLE
    assert (turn.turn_id, turn.text, turn.terminal, turn.outcome) == (
        TURN,
        "Hello.\u2028",
        Done("stop"),
        "completed",
    )
    assert turn.cursor == f"{TURN}:5"
    assert not turn.replayed


def test_pings_between_and_inside_chunks_are_no_events(client: Client, server: ContractServer) -> None:
    body = b": ping\n" + b": ping\n".join(frames(*WHOLE)) + b": ping\n"
    server.on(MESSAGES, streamed(*(body[place : place + 7] for place in range(0, len(body), 7))))
    assert list(client.send(SESSION, "Hello?")) == WHOLE


def test_an_event_is_given_as_soon_as_it_is_there(client: Client, server: ContractServer) -> None:
    held = Held()
    first, second, *rest = frames(*WHOLE)
    server.on(MESSAGES, streamed(first, second, held, *rest))
    with client.send(SESSION, "Hello?") as turn:
        assert [next(iter(turn)), next(iter(turn))] == WHOLE[:2]
        assert held.reached.wait(5)
        held.let_go.set()
        assert list(turn) == WHOLE[2:]


@pytest.mark.parametrize("whole", [True, False], ids=["closed", "broken"])
@pytest.mark.parametrize("seen", [1, 2, 3, 4])
def test_a_cut_line_goes_on_after_the_last_event(
    client: Client, server: ContractServer, seen: int, whole: bool
) -> None:
    parts = frames(*WHOLE)
    server.on(MESSAGES, streamed(*parts[:seen], whole=whole))
    server.on(LIVE, streamed(*parts[seen:]))
    assert list(client.send(SESSION, "Hello?")) == WHOLE
    assert [asked.query for asked in server.asks(LIVE)] == [{"after": f"{TURN}:{seen}"}]


def test_an_event_cut_in_the_middle_is_not_an_event(client: Client, server: ContractServer) -> None:
    first, second, *rest = frames(*WHOLE)
    # Without its blank line, even if its JSON is whole: the next connection gives it again.
    server.on(MESSAGES, streamed(first, second[:-1]))
    server.on(LIVE, streamed(first[:-20], Reset()), streamed(second, *rest))
    assert list(client.send(SESSION, "Hello?")) == WHOLE
    assert [asked.query["after"] for asked in server.asks(LIVE)] == [f"{TURN}:1", f"{TURN}:1"]


def test_a_reset_line_goes_on(client: Client, server: ContractServer) -> None:
    parts = frames(*WHOLE)
    server.on(MESSAGES, streamed(*parts[:2], Reset()))
    server.on(LIVE, Reset(), Answer(502, {}, (b"bad gateway",)), streamed(*parts[2:]))
    assert list(client.send(SESSION, "Hello?"))[-1] == META


def test_a_silent_line_counts_as_dead(server: ContractServer) -> None:
    parts, held = frames(*WHOLE), Held()
    server.on(MESSAGES, streamed(*parts[:2], held, whole=False))
    server.on(LIVE, streamed(*parts[2:]))
    client = Client(server.url, "secret", silence=0.2, first_delay=0.01)
    assert list(client.send(SESSION, "Hello?")) == WHOLE
    held.let_go.set()


def test_events_that_come_twice_are_given_once(client: Client, server: ContractServer) -> None:
    parts = frames(*WHOLE)
    server.on(MESSAGES, streamed(*parts[:3], whole=False))
    server.on(LIVE, streamed(*parts[1:]))
    turn = client.send(SESSION, "Hello?")
    assert list(turn) == WHOLE
    assert turn.text == "Hello.\u2028"


def test_a_replay_from_the_start_starts_the_view_anew(client: Client, server: ContractServer) -> None:
    parts = frames(*WHOLE)
    server.on(MESSAGES, streamed(*parts[:3], whole=False))
    server.on(LIVE, streamed(*parts))
    turn = client.send(SESSION, "Hello?")
    assert list(turn) == WHOLE[:3] + WHOLE
    assert turn.text == "Hello.\u2028"


def test_a_gap_is_asked_for_again(client: Client, server: ContractServer) -> None:
    parts = frames(*WHOLE)
    server.on(MESSAGES, streamed(parts[0], parts[3]))
    server.on(LIVE, streamed(*parts[1:]))
    assert list(client.send(SESSION, "Hello?")) == WHOLE


def test_an_event_of_a_newer_server_is_passed_over(client: Client, server: ContractServer) -> None:
    parts = frames(*WHOLE)
    parts[1] = parts[1].replace(b'"type":"text_delta"', b'"type":"hologram"')
    server.on(MESSAGES, streamed(*parts))
    turn = client.send(SESSION, "Hello?")
    assert list(turn) == [WHOLE[0], *WHOLE[2:]]
    assert turn.cursor == f"{TURN}:5"


def test_a_turn_that_ended_meanwhile_is_told_from_the_log(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, streamed(*frames(*WHOLE[:2]), whole=False))
    server.on(LIVE, refused(404, "no_active_turn"))
    server.on(TURN_CALL, ended("completed"))
    server.on(SESSION_CALL, transcript(kind="assistant", text="Hello.", finish_reason="stop", duration_ms=12))
    turn = client.send(SESSION, "Hello?")
    meta = Meta(SESSION, "completed", "home", "tiny", Tokens(3, 2, 0), None, 12, "Greeting")
    assert list(turn) == [*WHOLE[:2], TextDelta("lo."), Done("stop"), meta]
    assert turn.text == "Hello."


def test_an_answer_cut_short_by_its_model_stays_so(client: Client, server: ContractServer) -> None:
    evidence = {"kind": "assistant", "text": "Hel", "finish_reason": "length", "incomplete": "length"}
    server.on(MESSAGES, streamed(*frames(*WHOLE[:2]), whole=False))
    server.on(LIVE, refused(404, "no_active_turn"))
    server.on(TURN_CALL, ended("incomplete"))
    server.on(SESSION_CALL, transcript(**evidence))
    assert list(client.send(SESSION, "Hello?"))[2:-1] == [Incomplete("length"), Done("length")]


def test_after_a_crash_the_end_is_an_error_by_name(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, streamed(*frames(*WHOLE[:3]), whole=False))
    server.on(LIVE, Reset(), refused(404, "no_active_turn"))
    server.on(TURN_CALL, ended("interrupted", "interrupted", "the server died"))
    server.on(SESSION_CALL, transcript(kind="partial", text="Hel", code="interrupted", message="..."))
    turn = client.send(SESSION, "Hello?")
    assert list(turn)[3:-1] == [Error("interrupted", "the server died", True)]
    assert turn.outcome == "interrupted"


def test_another_turn_on_the_line_means_that_this_one_is_over(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, streamed(*frames(*WHOLE[:3]), whole=False))
    server.on(LIVE, streamed(*frames(STARTED, turn=OTHER_TURN), turn=OTHER_TURN))
    server.on(TURN_CALL, ended("stopped", "stopped", "stopped by the user"))
    server.on(SESSION_CALL, transcript(kind="partial", text="Hello.\u2028", code="stopped"))
    turn = client.send(SESSION, "Hello?")
    assert list(turn)[3:-1] == [Error("stopped", "stopped by the user", True)]
    assert turn.turn_id == TURN


def test_five_tries_without_an_event_are_the_end(client: Client, server: ContractServer) -> None:
    parts = frames(*WHOLE)
    server.on(MESSAGES, streamed(*parts[:2], whole=False))
    server.on(LIVE, streamed(parts[2], whole=False), *[streamed(b": ping\n")] * 5)
    turn = client.send(SESSION, "Hello?")
    with pytest.raises(ServerUnreachable, match="5 tries"):
        list(turn)
    # The event on the first of them began the count anew.
    assert len(server.asks(LIVE)) == 6
    assert turn.text == "Hello.\u2028"


def test_a_lost_token_is_not_tried_again(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, streamed(*frames(STARTED), whole=False))
    server.on(LIVE, refused(401, "unauthorized"))
    with pytest.raises(Unauthorized):
        list(client.send(SESSION, "Hello?"))


def test_a_session_deleted_meanwhile_is_said_so(client: Client, server: ContractServer) -> None:
    server.on(MESSAGES, streamed(*frames(STARTED), whole=False))
    server.on(LIVE, refused(404, "not_found"))
    with pytest.raises(NotFound):
        list(client.send(SESSION, "Hello?"))


def test_leaving_early_gives_the_connection_back(client: Client, server: ContractServer) -> None:
    held = Held()
    server.on(MESSAGES, streamed(*frames(STARTED, Status("loading_model", "...")), held, whole=False))
    with client.send(SESSION, "Hello?") as turn:
        assert next(iter(turn)) == STARTED
    with pytest.raises(ServerUnreachable, match="closed before its end"):
        turn.wait()
    held.let_go.set()


def test_watching_takes_the_turn_from_the_line(client: Client, server: ContractServer) -> None:
    server.on(LIVE, streamed(*frames(*WHOLE[2:], start=3)))
    turn = client.watch(SESSION, after=f"{TURN}:2")
    assert turn.wait() == META
    assert server.asks(LIVE)[0].query == {"after": f"{TURN}:2"}
    assert turn.turn_id == TURN
