"""One server, spoken to over HTTP: answers become structs, refusals become Timothy's own errors."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import requests
import urllib3
from requests.auth import AuthBase

from timothy import errors
from timothy.errors import BadRequest, RequestError, ServerUnreachable, TimothyError

T = TypeVar("T")
Fields = Mapping[str, Any]

# The server's heartbeat is at most 20 s: three of them missed is a dead line.
SILENCE_S = 60.0
CONNECT_S = 10.0
TRIES = 5
LOST = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)
_PASSING = (502, 503, 504)


class Server:
    """The address, the token and the patience of one client. Safe to share between threads.

    `first_delay` (seconds) is the pause before the second of five tries; it doubles from try to try.
    """

    def __init__(self, url: str, token: str, *, silence: float = SILENCE_S, first_delay: float = 0.5) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadRequest(f"the server's address must start with http:// or https://, and is {url!r}")
        self.url = url.rstrip("/")
        self.first_delay = first_delay
        self._silence = silence
        self._auth = _Bearer(token)

    def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: Fields | None = None,
        query: Fields | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """The JSON answer as `kind`. Raises the TimothyError that the server names, or ServerUnreachable."""
        with self._send(method, path, body, query, headers, stream=False) as response:
            if response.status_code == 204:
                return msgspec.convert(None, kind)
            return _decoded(response, kind)

    def stream(
        self,
        method: str,
        path: str,
        *,
        body: Fields | None = None,
        query: Fields | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """An open event stream, which the caller closes. Raises as `call` does."""
        return self._send(method, path, body, query, headers, stream=True)

    def patiently(self, ask: Callable[[], T]) -> T:
        """`ask()`, again while the server cannot be reached: five tries. Only for what is safe to repeat."""
        for delay in self.delays():
            try:
                return ask()
            except ServerUnreachable:
                time.sleep(delay)
        return ask()

    def delays(self) -> Iterator[float]:
        """The pauses between five tries, in seconds."""
        return (self.first_delay * 2**number for number in range(TRIES - 1))

    def _send(
        self,
        method: str,
        path: str,
        body: Fields | None,
        query: Fields | None,
        headers: Mapping[str, str] | None,
        *,
        stream: bool,
    ) -> requests.Response:
        try:
            response = requests.request(
                method,
                self.url + path,
                json=body,
                params=query,
                headers={"Accept-Encoding": "identity", **(headers or {})},
                auth=self._auth,
                stream=stream,
                timeout=(CONNECT_S, self._silence),
                allow_redirects=False,
            )
            if response.status_code >= 300:
                with response:
                    raise refusal(response)
        except LOST as error:
            raise ServerUnreachable(f"{self.url} cannot be reached: {error}") from error
        return response


class _Bearer(AuthBase):
    """The token as a header. As `auth`, so that requests does not put a netrc entry in its place."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._header
        return request


class _Problem(msgspec.Struct, frozen=True):
    error: str
    message: str = ""


def refusal(response: requests.Response) -> TimothyError:
    """The error that a refusing answer stands for, by its code; `details` are its other fields.

    A 502, 503 or 504 that is not Timothy's own (a proxy whose server is away) is ServerUnreachable.
    """
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
        details = {key: value for key, value in response.json().items() if key not in ("error", "message")}
    except msgspec.DecodeError:
        kind = ServerUnreachable if response.status_code in _PASSING else TimothyError
        return kind(
            f"{response.url} answered {response.status_code} {response.reason}, and not as Timothy does"
        )
    if problem.error in _BY_CODE:
        return _BY_CODE[problem.error](problem.message, **details)
    return TimothyError(f"{problem.error}: {problem.message}", **details)


def _decoded(response: requests.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise TimothyError(f"{response.url} did not answer as Timothy does: {error}") from error


def _by_code() -> dict[str, type[TimothyError]]:
    """Every error by its code; where two share one, what the caller did wrong goes first."""
    known = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TimothyError)
    ]
    return {kind.code: kind for kind in sorted(known, key=lambda kind: issubclass(kind, RequestError))}


_BY_CODE = _by_code()
