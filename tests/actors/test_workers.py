"""The leaf workers: every event comes to the turn, and so does every way to end without one."""

import threading

import pytest

from actors.messages import CallsJudged, ContextRead, Streamed, ToolEnded, WorkerFailed
from actors.stream import StreamJob, StreamWorker
from actors.tool import JudgeWorker, ToolWorker
from tests.actors.play import Gate, Gone, PlayedGateway, Probe
from timothy.cancel import Cancel
from timothy.conversation import Message, ModelRequest, ToolSpec
from timothy.events import Done, Error, Status, TextDelta, ToolCall
from timothy.permissions import Verdict
from timothy.tools.base import ToolError
from timothy.turn.inputs import Judged

HISTORY = (Message("user", "Hello"),)
KNOWN = ContextRead(HISTORY, frozenset(), frozenset({"web_search"}))
SHORTER = ContextRead((Message("user", "Sum"),), frozenset(), frozenset())
OVERFLOW = Error("context_overflow", "too long", False, context_window=512)
CALL = ToolCall("c", "probe", {})


class Reader:
    """In place of a ContextReader."""

    def __init__(self, context=KNOWN, shorter=None):
        self.context, self.shorter, self.windows = context, shorter, []

    def read(self, claim, cancel, show, tell):
        if isinstance(self.context, Exception):
            raise self.context
        show(Status("compacting", "x"))
        return self.context

    def after_overflow(self, claim, window, cancel, show, tell):
        self.windows.append(window)
        return self.shorter


class Toolbox:
    def offered(self, switched_off):
        return (ToolSpec("probe", "x" if "web_search" in switched_off else "y", {}),)


def run(gateway, reader=None, known=None, toolbox=None, turn=None, cancel=None, added=()):
    """A worker that has come to its end; what its turn heard."""
    turn = turn or Probe()
    request = ModelRequest(messages=added)
    job = StreamJob(3, request, None, reader or Reader(), known, toolbox)
    worker = StreamWorker.start(turn, gateway, job, cancel or Cancel())
    assert worker.actor_stopped.wait(10)
    return turn


def failed(turn):
    """The one failure, waited for: it is told as the worker goes."""
    return turn.first(WorkerFailed)


def test_every_event_comes_to_the_turn_with_its_step():
    gateway = PlayedGateway([TextDelta("a"), TextDelta("b"), Done("stop")], raw=True)
    turn = run(gateway, known=KNOWN)
    assert turn.messages == [
        Streamed(3, TextDelta("a")),
        Streamed(3, TextDelta("b")),
        Streamed(3, Done("stop")),
    ]


def test_the_context_is_read_told_and_put_before_what_the_turn_said():
    gateway = PlayedGateway([Done("stop")], raw=True)
    added = (Message("assistant", "x"),)
    turn = run(gateway, toolbox=Toolbox(), added=added)
    assert turn.messages == [Streamed(3, Status("compacting", "x")), KNOWN, Streamed(3, Done("stop"))]
    (request,) = gateway.requests
    assert request.messages == (*HISTORY, *added)
    assert [tool.description for tool in request.tools] == ["x"]


def test_without_a_toolbox_no_tools_are_offered():
    gateway = PlayedGateway([Done("stop")], raw=True)
    run(gateway, known=KNOWN)
    assert gateway.requests[0].tools == ()


@pytest.mark.parametrize(
    ("play", "words"),
    [
        ([], "ended without saying so"),
        ([TextDelta("a")], "ended without saying so"),
        ([TextDelta("a"), ValueError("broken")], "ValueError: broken"),
    ],
)
def test_a_gateway_that_breaks_its_promise_is_told_by_name(play, words):
    assert words in failed(run(PlayedGateway(play, raw=True), known=KNOWN)).cause


def test_a_context_that_cannot_be_read_is_told():
    turn = run(PlayedGateway([Done("stop")], raw=True), reader=Reader(OSError("disk")))
    assert failed(turn) == WorkerFailed(3, "OSError: disk")


def test_a_worker_that_is_stopped_from_outside_is_told():
    turn, gate = Probe(), Gate()
    gateway = PlayedGateway([gate, TextDelta("a")], raw=True)
    worker = StreamWorker.start(
        turn, gateway, StreamJob(3, ModelRequest(()), None, Reader(), KNOWN, None), Cancel()
    )
    gate.reached.wait(10)
    worker.stop(block=False)
    gate.open()
    assert failed(turn).step == 3


def test_after_a_cancel_any_end_is_the_cancel():
    cancel = Cancel()
    cancel.cancel()
    turn = run(PlayedGateway([ValueError("late")], raw=True), known=KNOWN, cancel=cancel)
    assert turn.messages == []
    gate = Gate()
    gateway, cancel = PlayedGateway([gate], raw=True), Cancel()
    turn = Probe()
    job = StreamJob(3, ModelRequest(()), None, Reader(), KNOWN, None)
    worker = StreamWorker.start(turn, gateway, job, cancel)
    gate.reached.wait(10)
    cancel.cancel()
    assert worker.actor_stopped.wait(10)
    assert turn.messages == []


def test_a_turn_that_is_gone_ends_the_stream():
    cancel = Cancel()
    run(PlayedGateway([TextDelta("a")] * 5, raw=True), known=KNOWN, turn=Gone(), cancel=cancel)
    assert cancel.cancelled


def test_a_prompt_that_is_too_long_is_tried_once_more_with_less():
    gateway = PlayedGateway([OVERFLOW], [TextDelta("a"), Done("stop")], raw=True)
    reader = Reader(shorter=SHORTER)
    turn = run(gateway, reader)
    assert reader.windows == [512]
    assert gateway.requests[1].messages == SHORTER.messages
    assert turn.messages[-3:] == [SHORTER, Streamed(3, TextDelta("a")), Streamed(3, Done("stop"))]
    assert Streamed(3, OVERFLOW) not in turn.messages


@pytest.mark.parametrize(
    ("plays", "shorter"),
    [
        ([[OVERFLOW]], None),
        ([[OVERFLOW], [OVERFLOW]], SHORTER),
        ([[TextDelta("a"), OVERFLOW]], SHORTER),
    ],
    ids=["cannot be shorter", "too long again", "after content"],
)
def test_otherwise_the_overflow_is_the_end(plays, shorter):
    turn = run(PlayedGateway(*plays, raw=True), Reader(shorter=shorter))
    assert turn.messages[-1] == Streamed(3, OVERFLOW)


# --- tools ---


def tool(work):
    turn = Probe()
    ToolWorker.start(turn, work, CALL, Cancel())
    return turn.first(ToolEnded)


def test_a_tools_result_and_its_error_are_told():
    ended = tool(lambda call, cancel: f"{call.name} ran")
    assert (ended.call_id, ended.status, ended.result) == ("c", "ok", "probe ran")

    def refuse(call, cancel):
        raise ToolError("no such file")

    ended = tool(refuse)
    assert (ended.status, ended.result) == ("error", "no such file")


def test_a_broken_tool_is_named():
    ended = tool(lambda call, cancel: 1 / 0)
    assert (ended.status, ended.result) == ("error", "the tool broke: ZeroDivisionError: division by zero")


def test_a_tool_that_is_stopped_from_outside_is_told_once():
    turn, hold, began = Probe(), threading.Event(), threading.Event()

    def wait(call, cancel):
        began.set()
        hold.wait(10)
        return "done"

    worker = ToolWorker.start(turn, wait, CALL, Cancel())
    began.wait(10)
    worker.stop(block=False)
    hold.set()
    assert worker.actor_stopped.wait(10)
    assert [ended.result for ended in turn.messages] == ["done"]


def test_a_worker_that_never_ran_still_tells_an_end():
    class Unrun(ToolWorker):
        def on_start(self):
            pass

    turn = Probe()
    worker = Unrun.start(turn, lambda call, cancel: "", CALL, Cancel())
    worker.stop()
    assert "ended without a result" in turn.first(ToolEnded).result


def test_the_time_a_tool_took_is_told_in_milliseconds():
    cancel = Cancel()
    turn = Probe()
    ToolWorker.start(turn, lambda call, c: str(c.wait(0.03)), CALL, cancel)
    ended = turn.first(ToolEnded)
    assert 29 <= ended.duration_ms < 10_000


def test_a_step_s_calls_are_judged_beside_their_turn():
    turn, may_end = Probe(), threading.Event()
    verdict = Verdict("allow", "read", "x", "Reads x.", "it only reads")

    def judge(calls):
        assert may_end.wait(10)
        return {call.call_id: verdict for call in calls}, {}

    worker = JudgeWorker.start(turn, judge, (CALL,))  # comes back at once, whatever the judge waits for
    assert turn.messages == []
    may_end.set()
    assert worker.actor_stopped.wait(10)
    assert turn.messages == [CallsJudged(Judged({"c": verdict}, {}))]


def test_a_judge_that_breaks_lets_no_call_run():
    turn = Probe()
    JudgeWorker.start(turn, lambda calls: 1 / 0, (CALL,))
    told = turn.first(CallsJudged)
    assert told.judged.verdicts == {} and "ZeroDivisionError" in told.judged.faults["c"]
