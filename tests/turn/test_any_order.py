"""Whatever happens to a turn, in whatever order: one end, nothing lost, nothing left open."""

from collections import Counter
from itertools import cycle

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.turn.play import ALLOWED, ASKED, DENIED, FACTS, WRITES
from timothy.events import (
    AttemptEnded,
    AttemptStarted,
    Done,
    Error,
    Failover,
    Incomplete,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    Status,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolResult,
    TurnStarted,
    Usage,
)
from timothy.schema import EVIDENCE_KINDS
from timothy.turn import inputs
from timothy.turn.effects import Emit, Finish, Judge, Park, Save, StartStream, StartTool, Unpark
from timothy.turn.machine import Limits, TurnMachine

ids = st.sampled_from(["", "0", "1", "0.2", "call"])
names = st.sampled_from(["read_file", "write_file"])
text = st.sampled_from(["", "a", "b\n", "\ud800", "ü"])
arguments = st.dictionaries(st.sampled_from("ab"), st.integers(0, 1))
content = st.one_of(
    st.builds(TextDelta, text),
    st.builds(ReasoningDelta, text),
    st.builds(ToolCallStarted, ids, names),
    st.builds(ToolCall, ids, names, arguments),
)
other = st.sampled_from(
    [
        AttemptStarted("p", "m", "t0"),
        AttemptEnded("p", "m", "ok", None, 1, 2, None, None, 3, 4, "t0"),
        Usage(1, None, 2),
        Status("a", "b"),
        Failover("a", "b", "c"),
        TurnStarted("s", "t", "m"),
    ]
)
ending = st.one_of(
    st.just(Done("stop")),
    st.builds(Incomplete, st.sampled_from(["length", "content_filter"])),
    st.builds(Error, st.sampled_from(["stream_cut", "overloaded"]), st.just("why"), st.booleans()),
)
verdicts = st.sampled_from([ALLOWED, WRITES, ASKED, ASKED, DENIED, None])
codes = st.sampled_from(["stopped", "turn_timeout", "server_shutdown", "turn_aborted"])
index = st.integers(0, 50)
rarely = st.sampled_from([False] * 7 + [True])


class AnyOrder(RuleBasedStateMachine):
    """Feeds a machine anything at any time, and keeps all that it asked for."""

    def __init__(self):
        super().__init__()
        self.machine = TurnMachine(FACTS, Limits(text_bytes=60, steps=4, parallel=2), lambda: 0.0)
        self.effects = []
        self.heard = []

    def feed(self, news):
        ended = self.machine.ended
        effects = self.machine.feed(news)
        assert not (ended and effects), "something happened after the end"
        self.effects += effects
        self.heard.append(news)

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def shown(self, kind=object):
        return [effect.event for effect in self.of(Emit) if isinstance(effect.event, kind)]

    @property
    def step(self):
        return len(self.of(StartStream))

    @initialize(late=rarely)
    def usually_begins_first(self, late):
        if not late:
            self.feed(inputs.Begin())

    @rule(rare=rarely)
    def begins(self, rare):
        if rare:
            self.feed(inputs.Begin())

    @rule(event=content)
    def streams(self, event):
        self.feed(inputs.Streamed(self.step, event))

    @rule(event=other)
    def streams_news(self, event):
        self.feed(inputs.Streamed(self.step, event))

    @rule(calls=st.lists(st.builds(ToolCall, ids, names, arguments), min_size=1, max_size=4))
    def streams_a_step_of_calls(self, calls):
        for call in calls:
            self.feed(inputs.Streamed(self.step, call))
        self.feed(inputs.Streamed(self.step, Done("tool_calls")))

    @rule(event=ending, rare=rarely)
    def stream_ends(self, event, rare):
        if rare:
            self.feed(inputs.Streamed(self.step, event))

    @rule(event=st.one_of(content, other, ending), away=st.sampled_from([-2, -1, 1, 2]), rare=rarely)
    def streams_from_another_step(self, event, away, rare):
        before = len(self.effects)
        if rare:
            self.feed(inputs.Streamed(self.step + away, event))
        assert len(self.effects) == before

    @precondition(lambda self: self.of(Judge))
    @rule(which=index, chosen=st.lists(verdicts, min_size=3, max_size=3))
    def is_judged(self, which, chosen):
        """The newest question mostly; now and then an old one again."""
        asked = self.of(Judge)
        calls = asked[-1 if which < 40 else which % len(asked)].calls
        given = dict(zip([call.call_id for call in calls], cycle(chosen), strict=False))
        faults = {call_id: "wrong" for call_id, verdict in given.items() if verdict is None}
        self.feed(inputs.Judged({i: v for i, v in given.items() if v is not None}, faults))

    @precondition(lambda self: self.acknowledgements())
    @rule(which=index, times=st.integers(1, 2))
    def is_saved(self, which, times):
        tokens = self.acknowledgements()
        for _ in range(times):
            self.feed(inputs.Saved(tokens[-1 - which % len(tokens)]))

    @rule(token=st.sampled_from(["end call", "start 0", "ask 1", "answer call", "end", "", "x y"]))
    def hears_of_what_it_never_saved(self, token):
        if token not in self.acknowledgements():
            before = len(self.effects)
            self.feed(inputs.Saved(token))
            assert len(self.effects) == before

    def acknowledgements(self):
        return [save.acknowledge for save in self.of(Save) if save.acknowledge]

    @rule(which=index, decision=st.sampled_from(["once", "session", "deny", "timeout"]))
    def is_answered(self, which, decision):
        asked = [request.id for request in self.shown(PermissionRequest)] or ["no such request"]
        self.feed(inputs.Answered(asked[-1 - which % len(asked)], decision))

    @precondition(lambda self: self.of(StartTool))
    @rule(which=index, status=st.sampled_from(["ok", "error"]))
    def tool_ends(self, which, status):
        started = self.of(StartTool)
        self.feed(inputs.ToolEnded(started[-1 - which % len(started)].call.call_id, status, "result", 1))

    @rule(call_id=ids)
    def a_tool_that_never_ran_ends(self, call_id):
        if call_id not in [start.call.call_id for start in self.of(StartTool)]:
            before = len(self.effects)
            self.feed(inputs.ToolEnded(call_id, "ok", "result", 1))
            assert len(self.effects) == before

    @rule()
    def checkpoint_is_due(self):
        self.feed(inputs.CheckpointDue())

    @rule(away=st.sampled_from([0, -1, 1]), rare=rarely)
    def worker_dies(self, away, rare):
        if rare:
            self.feed(inputs.WorkerDied(self.step + away, "broke"))

    @rule(code=codes, rare=rarely)
    def is_ended(self, code, rare):
        if rare:
            self.feed(inputs.End(code, "why"))

    @invariant()
    def one_start_and_it_comes_first(self):
        events = self.shown()
        assert [isinstance(event, TurnStarted) for event in events] == [True] + [False] * (
            len(events) - 1
        ) or (events == [])

    @invariant()
    def requests_are_counted(self):
        assert [request.step for request in self.of(StartStream)] == list(range(1, self.step + 1))
        assert self.step <= 4

    @invariant()
    def a_tool_runs_once_and_few_at_a_time(self):
        started = Counter(start.call.call_id for start in self.of(StartTool))
        assert set(started.values()) <= {1}
        ended = {save.tool_end for save in self.of(Save) if save.tool_end}
        assert len(set(started) - ended) <= 2

    @invariant()
    def nothing_final_is_said_or_saved_before_the_end(self):
        assert self.shown((Done, Error)) == []
        assert [row.kind for row in self.saved_rows() if row.kind in EVIDENCE_KINDS] == []
        assert len(self.of(Finish)) == self.machine.ended

    def saved_rows(self):
        return [row for save in self.of(Save) for row in save.rows]

    def teardown(self):
        self.feed(inputs.End("stopped", "the test is over"))
        assert [effect for effect in self.effects if isinstance(effect, Finish)] == self.effects[-1:]
        finish = self.effects[-1]
        self.the_evidence_is_the_last_row(finish.order)
        self.the_terminal_is_the_last_event(finish.closing)
        self.the_evidence_holds_all_that_was_shown(finish.order.rows[-1].payload)
        self.nothing_is_left_open_on_the_screen(finish.closing)
        self.nothing_is_left_open_in_the_log(finish.order)
        assert len(self.of(Park)) == len(self.of(Unpark))

    def the_evidence_is_the_last_row(self, order):
        kinds = [row.kind in EVIDENCE_KINDS for row in order.rows]
        assert kinds == [False] * (len(kinds) - 1) + [True]

    def the_terminal_is_the_last_event(self, closing):
        kinds = [isinstance(event, Done | Error) for event in closing]
        assert kinds == [False] * (len(kinds) - 1) + [True]

    def the_evidence_holds_all_that_was_shown(self, payload):
        shown = "".join(event.text for event in self.shown(TextDelta))
        thought = "".join(event.text for event in self.shown(ReasoningDelta))
        assert payload.get("text", "") == shown
        assert payload.get("reasoning", "") == thought
        pieces = [save.piece for save in self.of(Save) if save.piece]
        assert shown.startswith("".join(piece.text for piece in pieces))
        assert thought.startswith("".join(piece.reasoning for piece in pieces))

    def nothing_is_left_open_on_the_screen(self, closing):
        called = [event.call_id for event in self.shown(ToolCall)]
        results = [event.call_id for event in (*self.shown(), *closing) if isinstance(event, ToolResult)]
        assert len(set(called)) == len(called)
        assert sorted(called) == sorted(results)
        asked = [event.id for event in self.shown(PermissionRequest)]
        answered = [e.id for e in (*self.shown(), *closing) if isinstance(e, PermissionResolved)]
        assert sorted(asked) == sorted(answered)

    def nothing_is_left_open_in_the_log(self, order):
        rows = [*self.saved_rows(), *order.rows]
        executed = [row.payload["call_id"] for row in rows if row.kind == "tool_execution"]
        assert sorted(executed) == sorted(event.call_id for event in self.shown(ToolCall))
        asked = [row.payload["id"] for row in rows if row.kind == "permission_request"]
        answered = [row.payload["id"] for row in rows if row.kind == "permission_resolved"]
        assert sorted(asked) == sorted(answered)


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestAnyOrder = pytest.mark.once(AnyOrder.TestCase)
