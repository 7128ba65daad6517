"""The embedded model: llama.cpp in a process of its own, spoken to in OpenAI's wire."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.conversation import ModelRequest
from timothy.errors import ModelUnavailable, ProviderStalled, ProviderUnreachable, Stopped, StreamCut
from timothy.events import Error, Event, Status
from timothy.model import installed
from timothy.model.child import Child, Endpoint, Run
from timothy.providers import openai
from timothy.stream import terminated

# Any other system message derails the embedded model, which is very small.
SYSTEM = "You are a helpful assistant."
WINDOW = 4096
MAX_TOKENS = 1024
# Told of its progress, a reader that left is noticed while the prompt is still being read.
EXTRA = {"return_progress": True}
TEMPERATURE = 0.0
LOOK_S = 0.02
# A broken connection mostly is a death that is about to be noticed: the next attempt shall find it so.
BROKEN = ("stream_cut", "provider_unreachable")
LAST_WORDS_S = 2.0
ADVICE = (
    "Or name a provider in timothy.toml:"
    ' [[providers]] name = "mine", driver = "openai", base_url = "http://127.0.0.1:8080/v1", model = "NAME"'
)


class Driver:
    """The model file in use, started at the first attempt and again after it died."""

    def __init__(self, settings: ProviderSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._window = settings.context_window or WINDOW
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._closed = False

    def stream(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        """See the protocol. A cancel while the model loads ends the attempt at once, not the loading."""
        return terminated(self._attempt(request, cancel), cut=StreamCut)

    def close(self) -> None:
        """End the model's process."""
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.close()

    def state(self) -> str:
        """For a person: the model's file, its size, and whether it is loaded; or what is missing."""
        try:
            file = self._file()
        except ProviderUnreachable as error:
            return error.message
        doing = "asleep" if self._child is None else self._child.state
        if doing == "asleep":
            doing = "loads at the first message"
        return f"{file.name}, {file.stat().st_size / 1e6:.0f} MB, {doing}"

    def _attempt(self, request: ModelRequest, cancel: Cancel) -> Iterator[Event]:
        run = self._model().run()
        if not run.settled:
            yield Status("loading_model", f"loading the model ({run.model.name})")
            self._await(run, cancel)
        endpoint = run.endpoint()
        if run.model == installed.weights(self._home) or not request.system:
            request = msgspec.structs.replace(request, system=SYSTEM)
        for event in self._reached(endpoint).stream(request, cancel):
            if isinstance(event, Error) and event.code in BROKEN and run.died(LAST_WORDS_S):
                event = msgspec.structs.replace(event, message=run.failure)
            yield event

    def _model(self) -> Child:
        """The child for the file in use. Raises ProviderUnreachable, which says what to do."""
        with self._lock:
            if self._closed:
                raise ProviderUnreachable("the model's process was ended, since the server shuts down")
            if self._child is None:
                self._child = Child(self._file(), self._window)
            return self._child

    def _file(self) -> Path:
        if installed.engine() is None:
            raise ProviderUnreachable(
                "the embedded model's engine is not installed: run `pip install 'timothy[local]'`,"
                f" then `timothy model fetch`. {ADVICE}"
            )
        try:
            return installed.in_use(self._home)
        except ModelUnavailable as error:
            raise ProviderUnreachable(
                f"{error.message}: run `timothy model fetch --home {self._home}`,"
                f" or choose a file with `timothy model use`. {ADVICE}"
            ) from error

    def _await(self, run: Run, cancel: Cancel) -> None:
        """Until `run` is loaded or dead. Raises Stopped, ProviderStalled."""
        limit = self._settings.first_content_s
        deadline = time.monotonic() + limit
        while not run.settled:
            if cancel.wait(LOOK_S):
                raise Stopped("stopped")
            if time.monotonic() > deadline:
                raise ProviderStalled(f"the model {run.model.name} was not loaded within {limit:g} s")

    def _reached(self, endpoint: Endpoint) -> openai.Driver:
        """A driver for the process that answers now; tools are offered if the model's template takes them."""
        settings = msgspec.structs.replace(
            self._settings,
            base_url=endpoint.base_url,
            model=self._settings.model or "local",
            temperature=TEMPERATURE if self._settings.temperature is None else self._settings.temperature,
            max_tokens=min(self._settings.max_tokens or MAX_TOKENS, self._window),
            tools=endpoint.tools,
        )
        return openai.Driver(settings, self._home, key=endpoint.key, extra=EXTRA)
