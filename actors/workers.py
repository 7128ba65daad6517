"""The workers of one turn: started as its machine wants, and cancelled together."""

from typing import Any

import pykka

from actors.claims import Claim
from actors.context import ContextReader
from actors.messages import ContextRead
from actors.stream import StreamJob, StreamWorker
from actors.tool import Calls, JudgeWorker, ToolWorker
from actors.toolbox import Granted, Toolbox
from timothy.cancel import Cancel
from timothy.conversation import ModelRequest
from timothy.gateway.base import Gateway
from timothy.turn import effects


class Workers:
    """Belongs to one TurnActor, which hears from them and never waits for them."""

    def __init__(
        self,
        turn: pykka.ActorRef[Any],
        claim: Claim,
        gateway: Gateway,
        toolbox: Toolbox,
        reader: ContextReader,
        system_prompt: str,
    ) -> None:
        self._turn = turn
        self._claim = claim
        self._gateway = gateway
        self._toolbox = toolbox
        self._reader = reader
        self._system_prompt = system_prompt
        self._stream = Cancel()
        self._tools: list[Cancel] = []

    def start_stream(self, effect: effects.StartStream, known: ContextRead | None) -> None:
        """Ask the model; `known` is the context, if the turn has read it."""
        self._stream = Cancel()
        order = self._claim.send.order
        request = ModelRequest(
            messages=effect.added,
            system=self._system_prompt,
            model=order.model,
            continues=order.mode == "continue" and effect.step == 1,
            session_id=order.session_id,
            turn_id=order.turn_id,
            request_id=order.request_id or "",
        )
        toolbox = self._toolbox if effect.offer_tools else None
        job = StreamJob(effect.step, request, self._claim, self._reader, known, toolbox)
        StreamWorker.start(self._turn, self._gateway, job, self._stream)

    def judge(self, calls: Calls, granted: Granted, switched_off: frozenset[str]) -> None:
        """Find out what may be done with a step's calls."""
        toolbox = self._toolbox
        JudgeWorker.start(self._turn, lambda calls: toolbox.judge(calls, granted, switched_off), calls)

    def start_tool(self, effect: effects.StartTool) -> None:
        """Run one call."""
        cancel = Cancel()
        self._tools.append(cancel)
        session_id = self._claim.replay.session_id
        toolbox = self._toolbox
        ToolWorker.start(self._turn, lambda call, c: toolbox.run(call, session_id, c), effect.call, cancel)

    def cancel_stream(self) -> None:
        """The model's words are not wanted any more."""
        self._stream.cancel()

    def cancel_all(self) -> None:
        """Nobody hears what they tell from now on."""
        self._stream.cancel()
        for cancel in self._tools:
            cancel.cancel()
