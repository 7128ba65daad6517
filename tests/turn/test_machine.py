"""One turn: how it ends, what it saves, what the model hears of its tools."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.turn.play import ALLOWED, ASKED, DENIED, FACTS, WRITES, Turn
from timothy.conversation import Call, Message
from timothy.eventlog.records import Piece, Row, ToolStart
from timothy.events import (
    AttemptEnded,
    AttemptStarted,
    Done,
    Error,
    Failover,
    Incomplete,
    Meta,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    Retry,
    Status,
    TextDelta,
    Tokens,
    ToolCall,
    ToolCallStarted,
    ToolResult,
    TurnStarted,
    Usage,
)
from timothy.turn import inputs
from timothy.turn.effects import (
    CancelStream,
    CancelTools,
    Finish,
    Judge,
    Park,
    RemindCheckpoint,
    Save,
    StartStream,
    StartTool,
    Unpark,
)
from timothy.turn.machine import Limits

STARTED = TurnStarted("session", FACTS.started_at, FACTS.message)
ATTEMPT = AttemptStarted("p", "m", "t0")
ENDED = AttemptEnded("p", "m", "ok", None, 3, 4, None, 0.5, 10, 20, "t0")


# --- how a turn ends ---


def test_a_turn_begins_with_its_start_and_one_request():
    turn = Turn().begin()
    assert turn.shown == [STARTED]
    assert turn.of(StartStream) == [StartStream(1, (), True)]


def test_an_answer_completes_the_turn():
    turn = Turn().begin().says(ATTEMPT, TextDelta("Half "), TextDelta("past."), Usage(3, 4, None), ENDED)
    turn.now += 1.5
    turn.says(Done("stop"))
    assert turn.evidence == Row(
        "assistant_turn",
        {
            "text": "Half past.",
            "provider": "p",
            "model": "m",
            "duration_ms": 1500,
            "finish_reason": "stop",
            "usage": {"input_tokens": 3, "output_tokens": 4, "cached_tokens": None},
            "cost": 0.5,
        },
    )
    assert turn.closing == (Done("stop"),)
    order = turn.order
    assert (order.outcome, order.code, order.message) == ("completed", None, None)
    assert (order.usage, order.cost, order.provider, order.model) == (Tokens(3, 4, None), 0.5, "p", "m")
    assert order.attempt is None


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_incomplete_sticks_whatever_follows(reason):
    turn = Turn().begin().says(TextDelta("a"), Incomplete(reason), TextDelta("b"), Done("stop"))
    assert turn.evidence.payload["incomplete"] == reason
    assert (turn.evidence.payload["text"], turn.order.outcome) == ("ab", "incomplete")
    assert turn.shown[-2:] == [Incomplete(reason), TextDelta("b")]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ((), "turn_failed"),
        ((ReasoningDelta("hm"),), "turn_failed"),
        ((Status("loading_model", ""),), "turn_failed"),
        ((TextDelta("a"),), "pending_state"),
    ],
)
@pytest.mark.parametrize(
    "end",
    [
        Error("chain_exhausted", "all failed", True),
        Error("stream_cut", "cut", True),
        inputs.End("stopped", "by the user"),
        inputs.End("turn_timeout", "too long"),
        inputs.End("server_shutdown", "bye"),
        inputs.WorkerDied(1, "broke"),
    ],
)
def test_a_failure_leaves_a_partial_with_text_and_a_named_failure_without(said, kind, end):
    turn = Turn().begin().says(*said)
    turn.says(end) if isinstance(end, Error) else turn.feed(end)
    code = "turn_aborted" if isinstance(end, inputs.WorkerDied) else end.code
    assert (turn.evidence.kind, turn.evidence.payload["code"], turn.order.code) == (kind, code, code)
    (terminal,) = turn.closing
    assert (terminal.code, terminal.message) == (code, end.message)
    assert turn.effects[-3:-1] == [CancelStream(), CancelTools()]


def test_a_stop_before_the_start_dials_nothing_and_still_has_a_start():
    turn = Turn().feed(inputs.End("stopped", "by the user"))
    assert turn.shown == [STARTED]
    assert turn.of(StartStream) == []
    assert turn.evidence.kind == "turn_failed"
    turn.begin()
    assert turn.of(StartStream) == []


def test_after_the_finish_nothing_is_heard():
    turn = Turn().begin().says(TextDelta("a"), Done("stop"))
    before = list(turn.effects)
    turn.says(TextDelta("b"), Done("stop")).feed(inputs.End("stopped", "")).feed(inputs.CheckpointDue())
    turn.feed(inputs.WorkerDied(1, "")).begin()
    assert turn.effects == before


def test_news_of_another_step_is_dropped():
    turn = Turn().begin()
    turn.feed(inputs.Streamed(0, TextDelta("old"))).feed(inputs.Streamed(2, TextDelta("new")))
    turn.feed(inputs.WorkerDied(0, "late")).feed(inputs.WorkerDied(2, "early"))
    assert turn.shown == [STARTED]
    assert not turn.machine.ended


def test_an_attempt_that_runs_when_the_turn_is_ended_is_booked_as_stopped():
    turn = Turn().begin().says(ATTEMPT, TextDelta("a"), Usage(3, 1, None))
    turn.now += 2
    turn.feed(inputs.End("stopped", "by the user"))
    attempt = turn.order.attempt
    assert (attempt.provider, attempt.status, attempt.code, attempt.duration_ms) == (
        "p",
        "stopped",
        "stopped",
        2000,
    )
    assert (attempt.input_tokens, attempt.cost) == (3, None)
    assert turn.order.cost is None


def test_every_attempt_is_saved_and_none_is_shown():
    turn = Turn().begin().says(ATTEMPT, ENDED, ATTEMPT, TextDelta("a"), ENDED, Done("stop"))
    assert [save.attempt for save in turn.of(Save)] == [ENDED, ENDED]
    assert turn.shown == [STARTED, TextDelta("a")]


def test_a_failover_is_in_the_stream_and_in_the_log():
    failover = Failover("a", "b", "overloaded")
    turn = Turn().begin().says(failover, Retry(2, 500, "overloaded"), Status("x", "y"))
    assert turn.shown[1:] == [failover, Retry(2, 500, "overloaded"), Status("x", "y")]
    assert turn.of(Save) == [Save(rows=(Row("failover", {"from": "a", "to": "b", "code": "overloaded"}),))]


def test_usage_is_shown_as_the_turns_sum():
    turn = Turn().begin().says(ATTEMPT, Usage(3, 1, None), ENDED)
    turn.calls("read_file").ended("read_file").says(Usage(5, 2, 1))
    assert turn.of(Usage) == [Usage(3, 1, None), Usage(8, 3, 1)]


def test_what_does_not_belong_between_gateway_and_turn_is_not_shown():
    meta = Meta("s", "o", None, None, None, None, None, None)
    turn = Turn().begin().says(meta, STARTED, ToolResult("c", "n", "ok", "", 1, False))
    assert turn.shown == [STARTED]


# --- text ---


def test_empty_deltas_are_not_shown_and_broken_characters_are_repaired():
    turn = Turn().begin().says(TextDelta(""), ReasoningDelta(""), TextDelta("a\ud800\0"), Done("stop"))
    assert turn.shown[1:] == [TextDelta("a\ufffd\ufffd")]
    assert turn.evidence.payload["text"] == "a\ufffd\ufffd"


def test_a_checkpoint_is_asked_for_once_and_saves_what_was_shown_since_the_last():
    turn = Turn().begin().says(ATTEMPT, TextDelta("a"), TextDelta("b"), ReasoningDelta("x"))
    assert turn.of(RemindCheckpoint) == [RemindCheckpoint()]
    turn.feed(inputs.CheckpointDue())
    assert turn.of(Save) == [Save(piece=Piece(1, "ab", "x", "p", "m"))]
    turn.feed(inputs.CheckpointDue())  # nothing new
    turn.says(TextDelta("c")).feed(inputs.CheckpointDue())
    assert [save.piece for save in turn.of(Save)][1:] == [Piece(2, "c", "", "p", "m")]
    assert len(turn.of(RemindCheckpoint)) == 2


def test_before_tools_run_the_text_is_saved_as_nobodys_with_the_attempts_row():
    turn = Turn().begin().says(ATTEMPT, TextDelta("ab"), ToolCall("c", "read_file", {}), ENDED)
    assert turn.of(Save) == [Save(piece=Piece(1, "ab", "", None, None), attempt=ENDED)]
    turn.says(Done("tool_calls")).feed(inputs.CheckpointDue())
    assert [save.piece for save in turn.of(Save) if save.piece][1:] == []


def test_text_that_stalls_is_saved_too():
    turn = Turn().begin().says(TextDelta("a"))
    turn.feed(inputs.CheckpointDue())
    assert turn.of(Save)[0].piece.text == "a"


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
def test_a_turn_that_says_too_much_is_cut_and_its_provider_let_go(kind):
    turn = Turn(Limits(text_bytes=10)).begin().says(ATTEMPT, kind("ääää"), kind("ä"), kind("more"))
    assert turn.shown[-1] == Incomplete("length")
    assert turn.evidence.payload["incomplete"] == "length"
    assert (turn.order.outcome, turn.closing) == ("incomplete", (Done("length"),))
    assert CancelStream() in turn.effects
    assert turn.order.attempt.code == "length"


def test_the_words_of_two_steps_are_two_paragraphs():
    turn = Turn().begin().says(TextDelta("Let me see.")).calls("read_file").ended("read_file")
    turn.says(TextDelta("It is "), TextDelta("six."), Done("stop"))
    assert turn.evidence.payload["text"] == "Let me see.\n\nIt is six."
    assert "".join(delta.text for delta in turn.of(TextDelta)) == turn.evidence.payload["text"]


# --- tools ---


def test_a_reading_tool_runs_at_once_and_its_result_is_durable_before_it_is_shown():
    turn = Turn(durable=False).begin().calls("read_file", path="a")
    call = ToolCall("read_file", "read_file", {"path": "a"})
    assert turn.of(StartTool) == [StartTool(call)]
    turn.ended("read_file", "content")
    save = turn.of(Save)[-1]
    assert (save.rows[0].kind, save.tool_end, save.acknowledge) == (
        "tool_execution",
        "read_file",
        "end read_file",
    )
    assert turn.of(ToolResult) == [] and turn.step == 1
    turn.feed(inputs.Saved("end read_file"))
    assert turn.of(ToolResult) == [ToolResult("read_file", "read_file", "ok", "content", 7, False)]
    assert turn.step == 2


def test_a_tool_with_an_effect_starts_only_after_its_start_is_durable():
    turn = Turn(durable=False)
    turn.verdict = WRITES
    turn.begin().calls("write_file", path="a")
    assert turn.of(StartTool) == []
    assert turn.of(Save)[-1].tool_start == ToolStart("write_file", "write_file", {"path": "a"})
    turn.feed(inputs.Saved("start write_file"))
    assert len(turn.of(StartTool)) == 1


def test_the_model_hears_its_own_words_its_calls_and_the_results_in_its_order():
    turn = Turn().begin().says(TextDelta("Let me see.")).calls("one", "two")
    turn.ended("two", "second", "error").ended("one", "first")
    (request,) = turn.of(StartStream)[1:]
    assert request.added == (
        Message("assistant", "Let me see.", calls=(Call("one", "one", {}), Call("two", "two", {}))),
        Message("tool", "first", call_id="one"),
        Message("tool", "second", call_id="two"),
    )
    assert [result.call_id for result in turn.of(ToolResult)] == ["two", "one"]


def test_a_later_step_hears_all_earlier_ones():
    turn = Turn().begin().calls("one").ended("one")
    turn.says(TextDelta("And")).calls("two").ended("two")
    roles = [message.role for message in turn.of(StartStream)[-1].added]
    assert roles == ["assistant", "tool", "assistant", "tool"]
    assert (
        turn.of(StartStream)[-1].added[2].text == "\n\nAnd" or turn.of(StartStream)[-1].added[2].text == "And"
    )


def test_four_tools_run_at_once_and_the_fifth_waits_for_one_to_end():
    names = [f"tool{number}" for number in range(6)]
    turn = Turn().begin().calls(*names)
    assert list(turn.running) == names[:4]
    turn.ended("tool2")
    assert list(turn.running) == names[:5]
    for name in ("tool0", "tool1", "tool3", "tool4", "tool5"):
        turn.ended(name)
    assert turn.step == 2
    assert [m.call_id for m in turn.of(StartStream)[1].added[1:]] == names


def test_a_fault_in_the_arguments_is_the_calls_error_and_runs_nothing():
    turn = Turn()
    turn.faults["calculate"] = "expression is missing"
    turn.begin().calls("calculate")
    assert turn.of(StartTool) == []
    (result,) = turn.of(ToolResult)
    assert (result.status, result.preview, result.duration_ms) == ("error", "expression is missing", 0)
    assert turn.rows[0].payload["duration_ms"] is None
    assert turn.step == 2


def test_a_denied_call_is_told_so_and_the_turn_goes_on():
    turn = Turn()
    turn.verdict = DENIED
    turn.begin().calls("write_file")
    (result,) = turn.of(ToolResult)
    assert (result.status, result.preview) == ("denied", "Not allowed: the settings deny it.")
    assert turn.of(PermissionRequest) == [] and turn.step == 2


def test_a_long_result_is_shown_in_part_kept_whole_and_cut_for_the_model():
    turn = Turn().begin().calls("read_file").ended("read_file", "x" * 100_000)
    (result,) = turn.of(ToolResult)
    assert (len(result.preview), result.truncated) == (2000, True)
    assert len(turn.rows[0].payload["result"]) == 100_000
    assert len(turn.of(StartStream)[1].added[1].text) < 33_000


def test_the_sixteenth_request_offers_no_tools_and_a_call_in_it_ends_the_turn():
    turn = Turn().begin()
    for number in range(15):
        turn.calls("read_file", call_id=f"c{number}", path=number).ended("read_file")
    assert [request.offer_tools for request in turn.of(StartStream)] == [True] * 15 + [False]
    turn.says(TextDelta("Still not.")).calls("read_file", call_id="c16", path=99)
    assert (turn.order.outcome, turn.evidence.payload["incomplete"]) == ("incomplete", "max_steps")
    assert turn.of(Judge)[-1].calls[0].call_id == "c14"
    assert turn.closing[0].status == "cancelled"
    assert turn.closing[1:] == (Incomplete("max_steps"), Done("tool_calls"))


def test_three_identical_calls_in_a_row_force_an_answer():
    turn = Turn().begin()
    for number in range(3):
        assert turn.of(StartStream)[-1].offer_tools
        turn.calls("read_file", call_id=f"c{number}", path="same").ended("read_file")
    assert not turn.of(StartStream)[-1].offer_tools
    turn.says(TextDelta("All right."), Done("stop"))
    assert turn.order.outcome == "completed"


def test_calls_that_differ_may_repeat():
    turn = Turn().begin()
    for number in range(6):
        turn.calls("read_file", call_id=f"c{number}", path=number % 2).ended("read_file")
    assert all(request.offer_tools for request in turn.of(StartStream))


def test_every_call_of_a_turn_has_an_id_of_its_own():
    turn = Turn().begin()
    turn.calls("one", call_id="0").ended("one")
    turn.calls("two", call_id="0").ended("two")
    turn.says(ToolCall("", "three", {}), ToolCall("", "four", {}), ToolCallStarted("0", "five"))
    turn.says(ToolCall("0", "five", {}), ToolCall("0", "six", {}), ToolCall("0.2", "seven", {}), Done("x"))
    ids = [call.call_id for call in turn.of(ToolCall)]
    assert len(ids) == 7 == len(set(ids))
    assert {started.call_id for started in turn.of(ToolCallStarted)} <= set(ids)
    assert [start.call.name for start in turn.of(StartTool)] == ["one", "two", "three", "four", "five", "six"]


def test_text_of_an_earlier_step_makes_a_failure_a_partial():
    turn = Turn().begin().says(TextDelta("Let me see.")).calls("read_file").ended("read_file")
    turn.says(Error("overloaded", "busy", True))
    assert turn.evidence.kind == "pending_state"
    assert turn.evidence.payload["text"] == "Let me see."


# --- permissions ---


def asking(*, durable=True):
    turn = Turn(durable=durable)
    turn.verdict = ASKED
    return turn.begin().calls("write_file", path="notes/a")


def test_a_request_is_durable_before_it_is_shown_and_nothing_runs():
    turn = asking(durable=False)
    assert turn.of(PermissionRequest) == []
    assert turn.of(Save)[-1].rows[0].kind == "permission_request"
    turn.feed(inputs.Saved("ask write_file"))
    (request,) = turn.of(PermissionRequest)
    assert (request.call_id, request.tool, request.input) == ("write_file", "write_file", {"path": "notes/a"})
    assert (request.danger, request.rationale) == ("write", "writes notes")
    assert turn.of(Park) == [Park(request)]
    assert turn.of(StartTool) == []
    payload = dict(turn.of(Save)[-1].rows[0].payload)
    assert payload["id"] == request.id and payload["expires_at"] == request.expires_at


@pytest.mark.parametrize("decision", ["once", "session"])
def test_a_yes_is_durable_before_the_tool_runs(decision):
    turn = asking()
    (request,) = turn.of(PermissionRequest)
    turn.durable = False
    turn.feed(inputs.Answered(request.id, decision))
    assert turn.of(Unpark) == [Unpark(request.id, decision)]
    save = turn.of(Save)[-1]
    assert save.rows == (Row("permission_resolved", {"id": request.id, "decision": decision}),)
    assert turn.of(PermissionResolved) == []
    turn.feed(inputs.Saved("answer write_file"))
    assert turn.of(PermissionResolved) == [PermissionResolved(request.id, decision)]
    assert turn.of(Save)[-1].acknowledge == "start write_file"
    turn.feed(inputs.Saved("start write_file"))
    assert len(turn.of(StartTool)) == 1


def test_for_this_session_leaves_a_grant_of_twelve_hours_and_once_does_not():
    turn = asking()
    (request,) = turn.of(PermissionRequest)
    turn.feed(inputs.Answered(request.id, "session"))
    (grant,) = [save.grant for save in turn.of(Save) if save.grant]
    assert (grant.tool, grant.subject) == ("write_file", "notes")
    left = datetime.fromisoformat(grant.expires_at) - datetime.now(UTC)
    assert abs(left - timedelta(hours=12)) < timedelta(minutes=1)
    other = asking()
    other.feed(inputs.Answered(other.of(PermissionRequest)[0].id, "once"))
    assert [save.grant for save in other.of(Save) if save.grant] == []


def test_for_this_session_answers_what_is_asked_for_alike_and_nothing_else():
    turn = Turn()
    turn.verdict = ASKED
    turn.verdicts["elsewhere"] = msgspec.structs.replace(ASKED, subject="letters")
    turn.verdicts["dangerous"] = msgspec.structs.replace(ASKED, always=True)
    turn.begin()
    for call_id in ("first", "alike", "elsewhere", "dangerous"):
        turn.says(ToolCall(call_id, "write_file", {}))
    turn.says(ToolCall("other", "edit_file", {}), Done("tool_calls"))
    asked = {request.call_id: request.id for request in turn.of(PermissionRequest)}
    turn.feed(inputs.Answered(asked["first"], "session"))
    assert turn.of(PermissionResolved) == [
        PermissionResolved(asked[c], "session") for c in ("first", "alike")
    ]
    assert turn.of(Unpark) == [Unpark(asked[c], "session") for c in ("first", "alike")]
    assert [start.call.call_id for start in turn.of(StartTool)] == ["first", "alike"]
    assert len([save for save in turn.of(Save) if save.grant]) == 1
    turn.feed(inputs.Answered(asked["alike"], "deny"))
    assert len(turn.of(PermissionResolved)) == 2


@pytest.mark.parametrize(
    ("decision", "status", "words"), [("deny", "denied", "said no"), ("timeout", "cancelled", "Nobody")]
)
def test_a_no_and_a_silence_are_told_apart_to_the_model(decision, status, words):
    turn = asking()
    turn.feed(inputs.Answered(turn.of(PermissionRequest)[0].id, decision))
    (result,) = turn.of(ToolResult)
    assert result.status == status and words in result.preview
    assert turn.of(StartTool) == []
    assert words in turn.of(StartStream)[1].added[1].text


def test_the_first_answer_counts():
    turn = asking()
    (request,) = turn.of(PermissionRequest)
    turn.feed(inputs.Answered(request.id, "deny")).feed(inputs.Answered(request.id, "once"))
    turn.feed(inputs.Answered("no such request", "once"))
    assert turn.of(PermissionResolved) == [PermissionResolved(request.id, "deny")]
    assert turn.of(StartTool) == []


def test_calls_that_need_no_word_run_while_another_waits():
    turn = Turn()
    turn.verdicts = {"write_file": ASKED, "read_file": ALLOWED}
    turn.begin().calls("write_file", "read_file")
    assert list(turn.running) == ["read_file"]
    turn.ended("read_file")
    assert turn.step == 1
    turn.feed(inputs.Answered(turn.of(PermissionRequest)[0].id, "deny"))
    assert turn.step == 2


def test_a_stop_closes_what_is_open_in_the_log_and_on_the_screen():
    turn = Turn()
    turn.verdicts = {"write_file": ASKED, "read_file": ALLOWED, "run_command": WRITES}
    turn.begin().calls("write_file", "read_file", "run_command")
    (request,) = turn.of(PermissionRequest)
    turn.feed(inputs.End("stopped", "by the user"))
    assert Unpark(request.id, "cancelled") in turn.effects
    assert turn.order.rows[0] == Row("permission_resolved", {"id": request.id, "decision": "cancelled"})
    results = {row.payload["name"]: row.payload["result"] for row in turn.order.rows[1:-1]}
    assert results == {
        "write_file": "not run: the turn ended first",
        "read_file": "interrupted",
        "run_command": "interrupted, may have run",
    }
    assert turn.closing[0] == PermissionResolved(request.id, "cancelled")
    assert {event.status for event in turn.closing[1:-1]} == {"cancelled"}
    assert turn.closing[-1].code == "stopped"


def test_an_answer_that_is_on_its_way_to_the_disk_keeps_its_word_when_the_turn_ends():
    turn = asking()
    (request,) = turn.of(PermissionRequest)
    turn.durable = False
    turn.feed(inputs.Answered(request.id, "once")).feed(inputs.End("stopped", ""))
    assert [row.kind for row in turn.order.rows] == ["tool_execution", "turn_failed"]
    assert turn.closing[0] == PermissionResolved(request.id, "once")


@pytest.mark.parametrize("times", [2, 3])
def test_an_acknowledgement_heard_again_does_nothing(times):
    turn = Turn(durable=False)
    turn.verdict = ASKED
    turn.begin().calls("write_file")
    for token in ("ask", "answer", "start", "end"):
        if token == "answer":
            turn.feed(inputs.Answered(turn.of(PermissionRequest)[0].id, "once"))
        if token == "end":
            turn.ended("write_file").ended("write_file")
        for _ in range(times):
            turn.feed(inputs.Saved(f"{token} write_file"))
    kinds = (PermissionRequest, PermissionResolved, StartTool, ToolResult)
    assert [len(turn.of(kind)) for kind in kinds] == [1, 1, 1, 1]
    assert turn.step == 2 and turn.of(Finish) == []
