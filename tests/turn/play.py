"""A turn machine with a faithful world around it: what is saved is durable at once, unless a test says no."""

from timothy.eventlog.records import EndTurn, Row
from timothy.events import Done, Event, ToolCall, ToolCallStarted
from timothy.permissions import Verdict
from timothy.turn import inputs
from timothy.turn.effects import Effect, Emit, Finish, Judge, Save, StartStream, StartTool
from timothy.turn.machine import Limits, TurnFacts, TurnMachine

FACTS = TurnFacts("session", "turn", "What time is it?", "2026-01-31T12:00:00.000Z")
ALLOWED = Verdict("allow", "read", "", "reads", "it only reads")
WRITES = Verdict("allow", "write", "", "writes", "the settings allow it")
ASKED = Verdict("ask", "write", "notes", "writes notes", "its danger is write")
DENIED = Verdict("deny", "write", "", "writes", "the settings deny it")


class Turn:
    """Feeds a machine and keeps what it asked for."""

    def __init__(self, limits: Limits = Limits(), *, durable: bool = True) -> None:  # noqa: B008  frozen
        self.now = 100.0
        self.machine = TurnMachine(FACTS, limits, lambda: self.now)
        self.durable = durable
        self.verdicts: dict[str, Verdict] = {}
        self.verdict = ALLOWED
        self.faults: dict[str, str] = {}
        self.effects: list[Effect] = []
        self.unsaved: list[str] = []

    def feed(self, news: inputs.Input) -> "Turn":
        for effect in self.machine.feed(news):
            self.effects.append(effect)
            if isinstance(effect, Save) and effect.acknowledge:
                self.unsaved.append(effect.acknowledge)
            if isinstance(effect, Judge):
                self._judge(effect.calls)
        while self.durable and self.unsaved:
            self.feed(inputs.Saved(self.unsaved.pop(0)))
        return self

    def _judge(self, calls: tuple[ToolCall, ...]) -> None:
        good = [call for call in calls if call.name not in self.faults]
        by_name = {call.call_id: self.verdicts.get(call.name, self.verdict) for call in good}
        verdicts = {call_id: self.verdicts.get(call_id, verdict) for call_id, verdict in by_name.items()}
        faults = {call.call_id: self.faults[call.name] for call in calls if call.name in self.faults}
        self.feed(inputs.Judged(verdicts, faults))

    def begin(self) -> "Turn":
        return self.feed(inputs.Begin())

    def says(self, *events: Event) -> "Turn":
        """The running stream brings these."""
        for event in events:
            self.feed(inputs.Streamed(self.step, event))
        return self

    def calls(self, *names: str, call_id: str = "", **arguments: object) -> "Turn":
        """The model calls these tools, and ends its step."""
        for name in names:
            self.says(ToolCallStarted(call_id or name, name), ToolCall(call_id or name, name, arguments))
        return self.says(Done("tool_calls"))

    def ended(self, name: str, result: str = "fine", status: str = "ok") -> "Turn":
        """The tool `name` that runs now comes to its end."""
        return self.feed(inputs.ToolEnded(self.running[name], status, result, 7))

    @property
    def step(self) -> int:
        return sum(isinstance(effect, StartStream) for effect in self.effects)

    @property
    def running(self) -> dict[str, str]:
        """Tools that were started, by name: their call ids."""
        return {e.call.name: e.call.call_id for e in self.effects if isinstance(e, StartTool)}

    @property
    def shown(self) -> list[Event]:
        return [effect.event for effect in self.effects if isinstance(effect, Emit)]

    def of(self, kind: type) -> list:
        """All effects, or all shown events, of this kind."""
        return [e for e in (*self.effects, *self.shown) if isinstance(e, kind)]

    @property
    def rows(self) -> list[Row]:
        """Everything for the log, the last rows too."""
        rows = [row for effect in self.effects if isinstance(effect, Save) for row in effect.rows]
        return [*rows, *(self.order.rows if self.machine.ended else ())]

    @property
    def finish(self) -> Finish:
        (finish,) = self.of(Finish)
        return finish

    @property
    def order(self) -> EndTurn:
        return self.finish.order

    @property
    def evidence(self) -> Row:
        return self.order.rows[-1]

    @property
    def closing(self) -> tuple[Event, ...]:
        return self.finish.closing
