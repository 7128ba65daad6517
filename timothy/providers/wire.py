"""One HTTP exchange with a provider: a new connection, tied to a cancel handle and watched for silence."""

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import urllib3
from urllib3.util.wait import wait_for_read

from timothy.cancel import Cancel
from timothy.config import ProviderSettings
from timothy.errors import (
    MalformedStream,
    ProviderError,
    ProviderStalled,
    ProviderUnreachable,
    Stopped,
    StreamCut,
    TimothyError,
)
from timothy.providers.chunked import answer
from timothy.providers.dial import Connection, connection
from timothy.providers.failures import refused, words
from timothy.providers.pace import Pace
from timothy.providers.watchdog import watchdog

READ_BYTES = 65536
REFUSAL_BYTES = 65536
REFUSAL_S = 10.0
AFTER_FINISH_S = 5.0
FOREIGN = (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError)


class Source(Protocol):
    """Where a driver's bytes come from: an exchange, or a recording."""

    def read(self) -> bytes:
        """The next bytes, as soon as there are some; b"" at the end."""
        ...

    def content(self) -> None:
        """The last bytes held content: the silence timer starts anew."""
        ...

    def progress(self) -> None:
        """The last bytes held a sign of work: the timer that runs starts anew."""
        ...

    def finishing(self) -> None:
        """The answer said that it is over: little more will come, and it is not waited for long."""
        ...


class Exchange:
    """A request and its answer. Every failure has a name; any failure after a cancel is `Stopped`."""

    def __init__(self, settings: ProviderSettings, cancel: Cancel) -> None:
        self._settings = settings
        self._cancel = cancel
        self._connection: Connection | None = None
        self._socket: socket.socket | None = None
        self._response: Any = None
        self._pace = Pace()
        self._first = True
        self._limit_s = settings.first_content_s
        self._silence_s = settings.silence_s
        self._read_at = 0.0
        self._late = False
        self._place = ""
        self.deadline = 0.0

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Connect and send. Raises ProviderUnreachable, ProviderStalled."""
        self.close()
        self._place = url
        self._check()
        try:
            path = self._connect(urllib3.util.parse_url(url))
        except FOREIGN as error:
            raise self._named(error, self._unreachable) from error
        self._first, self._limit_s = True, self._settings.first_content_s
        self._read_at = time.monotonic()
        self.progress()
        self._write(path, headers, body)

    def answered(self, seconds: float) -> bool:
        """Wait up to `seconds` for the first byte of the answer."""
        assert self._socket is not None
        return wait_for_read(self._socket, min(seconds, self._remaining()))

    def begin(self) -> None:
        """Read the headers. Raises the provider's refusal when the status is no success."""
        self._check()
        assert self._connection is not None and self._socket is not None
        try:
            self._socket.settimeout(self._remaining())
            self._response = answer(self._connection)
            self._socket.settimeout(None)
        except FOREIGN as error:
            raise self._named(error, self._unanswered) from error
        watchdog.watch(self)
        if not 200 <= self._response.status < 300:
            raise self._named(refused(self._response.status, self._response.headers, self._refusal()), None)

    def read(self) -> bytes:
        """The next bytes; b"" at the end. Raises ProviderStalled, StreamCut, MalformedStream, Stopped."""
        self._check()
        if self._late:
            raise self._stalled()
        began = time.monotonic()
        try:
            data: bytes = self._response.read1(READ_BYTES)
        except FOREIGN as error:
            raise self._named(error, self._broken) from error
        self._read_at = time.monotonic()
        self._pace.waited(began, self._read_at)
        self._check()
        if not data and self._late:
            raise self._stalled()
        return data

    def content(self) -> None:
        """See Source."""
        self._first, self._limit_s = False, self._silence_s
        self.deadline = self._read_at + self._silence_s

    def progress(self) -> None:
        """See Source."""
        self.deadline = self._read_at + self._limit_s

    def finishing(self) -> None:
        """See Source."""
        self.deadline = min(self.deadline, time.monotonic() + AFTER_FINISH_S)

    def overdue(self) -> None:
        """See timothy.providers.watchdog: a read that waits ends now, and the next one fails by name."""
        self._late = True
        if self._connection is not None:
            self._connection.shut()

    def close(self) -> None:
        """Close the connection; the provider sees it at once."""
        watchdog.leave(self)
        opened, self._connection = self._connection, None
        response, self._response = self._response, None
        self._socket = None
        if opened is not None:
            if self._cancel.cancelled:
                opened.abort()
            opened.untie()
            opened.close()
        if response is not None:
            response.close()

    def _connect(self, target: urllib3.util.Url) -> str:
        """Open the connection; what to ask for on it."""
        self._place = target.netloc or self._place
        self._connection, path = connection(target, self._settings.connect_timeout_s, self._cancel)
        self._connection.connect()
        self._socket, self._late = self._connection.sock, False
        return path

    def _write(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        assert self._connection is not None
        self._connection.timeout = self._remaining()  # urllib3 takes that of connecting, too short for images
        try:
            self._connection.request(
                "POST", path, body=body, headers=headers, preload_content=False, decode_content=True
            )
        except (BrokenPipeError, ConnectionResetError):
            self._check()  # it may have answered before it read all: the answer says why
        except FOREIGN as error:
            raise self._named(error, self._unanswered) from error

    def _refusal(self) -> bytes:
        """As much of a refusal's body as comes soon."""
        self.deadline = min(self.deadline, time.monotonic() + REFUSAL_S)
        body = b""
        try:
            while len(body) < REFUSAL_BYTES and (data := self.read()):
                body += data
        except ProviderError:
            return body  # the status alone is a reason
        return body

    def _check(self) -> None:
        if self._cancel.cancelled:
            raise Stopped("stopped")

    def _remaining(self) -> float:
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise self._stalled()
        return remaining

    def _named(
        self, error: Exception, translate: Callable[[Exception], ProviderError] | None
    ) -> TimothyError:
        if self._cancel.cancelled:
            return Stopped("stopped")
        if isinstance(error, TimothyError):
            return error
        assert translate is not None
        return translate(error)

    def _unreachable(self, error: Exception) -> ProviderError:
        settings = self._settings
        match error:
            case TimeoutError():
                reason = f"no connection within {settings.connect_timeout_s:g} s (connect_timeout_s)"
            case socket.gaierror():
                reason = f"the host's name is not found: {error.strerror}"
            case ssl.SSLError() | urllib3.exceptions.SSLError():
                reason = f"TLS failed: {error}"
            case _:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ProviderUnreachable(f"cannot reach {self._place}: {words(reason)}")

    def _unanswered(self, error: Exception) -> ProviderError:
        if isinstance(error, TimeoutError):
            return self._stalled()
        if isinstance(error, http.client.HTTPException) and not isinstance(error, ConnectionError):
            return MalformedStream(f"{self._place} does not speak HTTP: {words(repr(error))}")
        if isinstance(error, (OSError, urllib3.exceptions.HTTPError)):
            return StreamCut(f"{self._place} closed the connection before it answered: {words(str(error))}")
        return MalformedStream(f"{self._place} cannot be asked: {words(str(error))}")

    def _broken(self, error: Exception) -> ProviderError:
        if self._late:
            return self._stalled()
        if isinstance(error, urllib3.exceptions.DecodeError):
            return MalformedStream(f"{self._place} sent a body that cannot be unpacked: {words(str(error))}")
        return StreamCut(f"{self._place} broke the connection off: {words(str(error))}")

    def _stalled(self) -> ProviderStalled:
        own = self._first and self._settings.first_content_timeout_s is not None
        setting = "first_content_timeout_s" if own else "idle_timeout_s"
        kind = "first content" if self._first else "content"
        return ProviderStalled(f"{self._place} sent no {kind} within {self._limit_s:g} s ({setting})")
