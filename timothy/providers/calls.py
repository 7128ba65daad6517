"""Tool calls, put together from the pieces that a provider sends, whatever it does to index, id and name."""

import json
import uuid
from typing import Any

from timothy.errors import MalformedStream
from timothy.events import ToolCall, ToolCallStarted
from timothy.providers.honest import honest_value, lenient_json
from timothy.text import honest

_decoder = json.JSONDecoder(strict=False)


class _Growing:
    """One call as far as it has come. `tentative`: it may echo the one before, until arguments come."""

    def __init__(self, call_id: str, given: str, name: str, *, tentative: bool) -> None:
        self.call_id = call_id
        self.given = given
        self.name = name
        self.tentative = tentative
        self.announced = False
        self.pieces: list[str] = []

    @property
    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def complete(self) -> bool:
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return _objects(self.arguments) is not None


class Calls:
    """All calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Growing] = []
        self._at: dict[int, _Growing] = {}
        self._ids: set[str] = set()

    def piece(
        self, index: int | None, call_id: str | None, name: str | None, arguments: Any
    ) -> ToolCallStarted | None:
        """Take a piece of a call; the news that it began, once its name is known."""
        text = arguments if isinstance(arguments, str) else _encoded(arguments)
        call = self._target(index, call_id or "", name or "", text)
        if call is None:
            return None
        if text:
            call.pieces.append(text)
            call.tentative = False
        call.name = call.name or honest(name or "")
        if call.announced or call.tentative or not call.name:
            return None
        call.announced = True
        return ToolCallStarted(call.call_id, call.name)

    def finish(self, *, cut: bool) -> list[ToolCall | ToolCallStarted]:
        """The calls, complete. One that was cut short by the model's limit is left out.

        Raises MalformedStream for a call without a name: nobody can run it.
        """
        found: list[ToolCall | ToolCallStarted] = []
        for call in self._calls:
            if call.tentative:
                continue
            if not call.name:
                raise MalformedStream("the provider sent a tool call without a name")
            found += self._complete(call, cut=cut)
        return found

    def _complete(self, call: _Growing, *, cut: bool) -> list[ToolCall | ToolCallStarted]:
        raw = call.arguments
        inputs = _objects(raw) if raw.strip() else [{}]
        if inputs is None:
            return [] if cut else [ToolCall(call.call_id, call.name, {}, honest(raw))]
        events: list[ToolCall | ToolCallStarted] = [ToolCall(call.call_id, call.name, inputs[0])]
        for glued in inputs[1:]:
            call_id = self._unique(call.given)
            events += [ToolCallStarted(call_id, call.name), ToolCall(call_id, call.name, glued)]
        return events

    def _target(self, index: int | None, given: str, name: str, text: str) -> _Growing | None:
        """The call that a piece belongs to, perhaps a new one; None for an echo of a complete call."""
        call = self._find(index, given)
        if call is None or (given and call.given and given != call.given):
            return self._begin(index, given, name)
        if not name or not call.name:
            call.given = call.given or given
            return call
        same = name == call.name and given in ("", call.given)
        if not call.complete:
            return call if name == call.name else self._begin(index, given, name)
        if same and (text == call.arguments or (given and not text)):
            return None
        return self._begin(index, given, name, tentative=same and not text)

    def _find(self, index: int | None, given: str) -> _Growing | None:
        if index is not None:
            return self._at.get(index)
        known = next((call for call in reversed(self._calls) if given and call.given == given), None)
        return known or (self._calls[-1] if self._calls else None)

    def _begin(self, index: int | None, given: str, name: str, *, tentative: bool = False) -> _Growing:
        call = _Growing(self._unique(given), given, honest(name), tentative=tentative)
        self._calls.append(call)
        if index is not None:
            self._at[index] = call
        return call

    def _unique(self, given: str) -> str:
        """An id that no other call of this answer has; the provider's own where that can be."""
        call_id = honest(given) or f"call_{uuid.uuid4().hex[:12]}"
        number = 2
        while call_id in self._ids:
            call_id = f"{honest(given)}-{number}"
            number += 1
        self._ids.add(call_id)
        return call_id


def _encoded(arguments: Any) -> str:
    """Arguments that came as a value, as the text that other servers send."""
    try:
        return "" if arguments is None else json.dumps(honest_value(arguments))
    except ValueError as error:
        return f"[{error}]"


def _objects(raw: str) -> list[dict[str, Any]] | None:
    """The JSON objects in `raw`, one as a rule, several when a server glued calls; None if it is not that."""
    text = honest(raw)
    try:
        values = [honest_value(value) for value in _values(text)]
    except ValueError:
        return None
    if not all(isinstance(value, dict) for value in values):
        return None
    distinct = [value for number, value in enumerate(values) if value and value not in values[:number]]
    return distinct or [{}]


def _values(text: str) -> list[Any]:
    try:
        value = lenient_json(text)
    except ValueError:
        return _glued(text)
    return [lenient_json(value)] if isinstance(value, str) else [value]  # some encode the object twice


def _glued(text: str) -> list[Any]:
    values, place = [], 0
    while place < len(text):
        try:
            value, place = _decoder.raw_decode(text, place)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        values.append(value)
        while text[place : place + 1].isspace():
            place += 1
    return values
