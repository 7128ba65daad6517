"""Telling a person who watches nothing: a webhook or an ntfy topic, when a turn ends or waits."""

import http.client
import logging
import threading
import time
from collections.abc import Iterable
from typing import Any

import msgspec
import requests

from actors.addresses import Address, Addresses
from actors.base import BaseActor
from actors.messages import Notify

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
TEST = Notify(
    "test", None, None, None, "This is a test: Timothy can tell you here when a turn ends or waits."
)
_TITLES = {
    "completed": "Timothy answered",
    "incomplete": "Timothy's answer was cut short",
    "waiting": "Timothy waits for you",
    "stopped": "Timothy was stopped",
    "interrupted": "Timothy was interrupted",
    "test": "A test from Timothy",
}


class Outcome(msgspec.Struct, frozen=True):
    """What came back: a `status`, or none; `code` and `message` name the failure when it is not `ok`."""

    kind: str
    address: str
    source: str
    ok: bool
    status: int | None
    code: str | None
    message: str | None
    duration_ms: int


class Notifier(BaseActor):
    """Calls the addresses; a failure is logged and costs no turn anything."""

    def __init__(self, addresses: Addresses) -> None:
        super().__init__()
        self._addresses = addresses

    def on_receive(self, message: Notify) -> None:
        for outcome in call(self._addresses.all(), message, TIMEOUT_S):
            if not outcome.ok:
                host = outcome.address.split("/")[2].rpartition("@")[2]  # the rest is often a secret
                why = f"it answered {outcome.status}" if outcome.status else outcome.message
                logger.warning("the notification to the %s at %s failed: %s", outcome.kind, host, why)


def call(addresses: Iterable[Address], news: Notify, within_s: float) -> list[Outcome]:
    """Tell all addresses at once; what came back from each within so many seconds. Raises nothing."""
    calls = [_Call(address, news, within_s) for address in addresses]
    until = time.monotonic() + within_s
    for one in calls:
        one.start()
    for one in calls:
        one.join(max(0.0, until - time.monotonic()))
    return [one.outcome for one in calls]


class _Call(threading.Thread):
    """One request. It may outlive the patience of who waits, in the resolver of names for example."""

    def __init__(self, address: Address, news: Notify, within_s: float) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._news = news
        self._within_s = within_s
        self._began = time.monotonic()
        self.outcome = self._failed("timeout", f"no answer came within {within_s:g} s", within_s)

    def run(self) -> None:
        try:
            self.outcome = self._ask()
        except requests.exceptions.SSLError as error:
            self.outcome = self._failed("tls_failed", f"its certificate or TLS is refused: {_reason(error)}")
        except requests.Timeout:
            pass  # that is the outcome already
        except requests.ConnectionError as error:
            self.outcome = self._failed("unreachable", f"it cannot be reached: {_reason(error)}")
        except (OSError, ValueError) as error:  # RequestException is an OSError
            self.outcome = self._failed("bad_address", f"it cannot be called: {type(error).__name__}")

    def _ask(self) -> Outcome:
        """A redirect is not followed: most turn the POST into a GET, and nobody would be told."""
        url, content = self._address.url, _content(self._address, self._news)
        with requests.post(
            url, timeout=self._within_s, allow_redirects=False, stream=True, **content
        ) as answer:
            status = answer.status_code
        said = f"it answered {status} {http.client.responses.get(status, '')}".rstrip()
        if status < 300:
            return self._outcome(None, None, status)
        if status < 400:
            said += f" and points to {answer.headers.get('Location', 'nowhere')[:300]}: set that address"
            return self._outcome("redirected", said, status)
        return self._outcome("refused", said, status)

    def _failed(self, code: str, message: str, took_s: float | None = None) -> Outcome:
        return self._outcome(code, message, None, took_s)

    def _outcome(
        self, code: str | None, message: str | None, status: int | None, took_s: float | None = None
    ) -> Outcome:
        took_ms = round((time.monotonic() - self._began if took_s is None else took_s) * 1000)
        to = self._address
        return Outcome(to.kind, to.url, to.source, code is None, status, code, message, took_ms)


def _content(address: Address, news: Notify) -> dict[str, Any]:
    """What an address of this kind is sent: everything as JSON, or the words with a title (ntfy's API)."""
    if address.kind == "webhook":
        return {"json": {name: getattr(news, name) for name in news.__slots__}}
    title = _TITLES.get(news.event, "A turn of Timothy failed")
    return {"data": news.text.encode(), "headers": {"Title": title}}


def _reason(error: BaseException) -> str:
    """The system's own words, from the innermost cause that has some."""
    words, cause = type(error).__name__, error.__context__
    while cause is not None:
        words = getattr(cause, "strerror", None) or str(cause) or words
        cause = cause.__cause__ or cause.__context__
    return words[:300]
