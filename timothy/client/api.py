"""Everything a Python program can ask of a Timothy server."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from timothy.client.http import SILENCE_S, Fields, Server
from timothy.client.shapes import (
    Accepted,
    Health,
    LogPage,
    LogRow,
    ModelList,
    Page,
    Permission,
    PermissionList,
    ProviderList,
    Session,
    SessionList,
    StopAnswer,
    Turn,
    UsageReport,
)
from timothy.client.stream import TurnStream
from timothy.gateway.base import ModelRow, ProviderRow

T = TypeVar("T")
Mode = Literal["again", "continue"]
Answer = Literal["once", "session", "deny"]
Group = Literal["day", "provider", "model", "session"]
_ROWS = 500


class Client:
    """One server at `url`, with its token. Safe to share between threads; any method may raise TimothyError.

    A refusal is raised as the class of `timothy.errors` that bears its code (`TurnInFlight`, ...), with the
    answer's other fields in `details`; a server that cannot be reached as `ServerUnreachable`.
    `silence` is how many seconds a line may say nothing, pings included, before it counts as dead;
    `first_delay` the pause in seconds before the second of five tries, doubled from try to try.
    """

    def __init__(self, url: str, token: str, *, silence: float = SILENCE_S, first_delay: float = 0.5) -> None:
        self._server = Server(url, token, silence=silence, first_delay=first_delay)

    def create_session(self, title: str | None = None) -> Session:
        """A new, empty session."""
        return self._server.call("POST", "/v1/sessions", Session, body=_given(title=title))

    def branch(self, session_id: str, seq: int) -> Session:
        """A new session with a copy of another's log up to and including `seq`."""
        body = {"from": {"session_id": session_id, "seq": seq}}
        return self._server.call("POST", "/v1/sessions", Session, body=body)

    def sessions(self, query: str | None = None) -> Iterator[Session]:
        """All sessions, newest activity first, page by page; with `query`, those that contain it."""
        cursor = None
        while True:
            page = self._get("/v1/sessions", SessionList, query=query, cursor=cursor)
            yield from page.sessions
            cursor = page.next_cursor
            if cursor is None:
                return

    def session(self, session_id: str, *, before: int | None = None, limit: int | None = None) -> Page:
        """The session with its newest `limit` items (default 200), or the newest before the seq `before`."""
        return self._get(_session(session_id), Page, before=before, limit=limit)

    def rename(self, session_id: str, title: str) -> Session:
        """The session with its new title, 200 characters at most."""
        return self._server.call("PATCH", _session(session_id), Session, body={"title": title})

    def archive(self, session_id: str, archived: bool = True) -> Session:
        """The session, put away or taken back."""
        return self._server.call("PATCH", _session(session_id), Session, body={"archived": archived})

    def delete_session(self, session_id: str) -> None:
        """Delete the session and its log. Raises TurnInFlight while a turn runs."""
        self._server.call("DELETE", _session(session_id), type(None))

    def events(self, session_id: str, after: int = 0) -> Iterator[LogRow]:
        """The session's raw log from the seq after `after` on, page by page."""
        rows: list[LogRow] | None = None
        while rows is None or len(rows) == _ROWS:
            rows = self._get(f"{_session(session_id)}/events", LogPage, after=after, limit=_ROWS).events
            yield from rows
            after = rows[-1].seq if rows else after

    def send(
        self,
        session_id: str,
        message: str,
        model: str | None = None,
        key: str | None = None,
        attachments: Sequence[Fields] = (),
    ) -> TurnStream:
        """Send a message, and the stream of the turn it starts. Raises TurnInFlight while another turn runs.

        It goes out with an Idempotency-Key (`key`, or one made here), so that it is sent again without fear
        when the line breaks before the answer. The same key sent later gives the same turn again.
        An attachment is {"name", "media_type"} with "text", or with "data" in base64 for an image.
        """
        body = {"message": message, **_given(model=model, attachments=list(attachments) or None)}
        return self._open(session_id, "messages", body, key)

    def retry(self, session_id: str, mode: Mode = "again", key: str | None = None) -> TurnStream:
        """A new turn on the last user message: from the start, or going on after the partial answer.

        Raises NoRetryableTurn when the last turn completed.
        """
        return self._open(session_id, "messages/retry", {"mode": mode}, key)

    def submit(
        self, session_id: str, message: str, model: str | None = None, key: str | None = None
    ) -> Accepted:
        """Send a message and do not watch: the turn is durable and runs. Keyed as `send` is."""
        headers = {"Prefer": "respond-async", "Idempotency-Key": key or _new_key()}
        body = {"message": message, **_given(model=model)}
        path = f"{_session(session_id)}/messages"
        return self._server.patiently(
            lambda: self._server.call("POST", path, Accepted, body=body, headers=headers)
        )

    def watch(self, session_id: str, after: str | int | None = None) -> TurnStream:
        """The stream of the turn that runs, from its start or after a cursor. Raises NoActiveTurn."""
        path, query = f"{_session(session_id)}/live", _given(after=after)
        response = self._server.patiently(lambda: self._server.stream("GET", path, query=query))
        return TurnStream(self._server, session_id, response, "" if after is None else str(after))

    def turn(self, session_id: str, turn_id: str) -> Turn:
        """A turn, how it ended, and its attempts."""
        return self._get(f"{_session(session_id)}/turns/{quote(turn_id, safe='')}", Turn)

    def stop(self, session_id: str, turn_id: str | None = None) -> StopAnswer:
        """Stop the turn that runs. Raises NoActiveTurn, or TurnMismatch when `turn_id` is not the one."""
        path = f"{_session(session_id)}/stop"
        return self._server.call("POST", path, StopAnswer, body=_given(turn_id=turn_id))

    def answer(self, permission_id: str, decision: Answer) -> None:
        """Allow a tool call once, or for this session, or deny it. Raises AlreadyResolved, NotFound."""
        path = f"/v1/permissions/{quote(permission_id, safe='')}"
        self._server.call("POST", path, dict[str, Any], body={"decision": decision})

    def pending(self) -> list[Permission]:
        """The tool calls that wait for an answer."""
        return self._get("/v1/permissions/pending", PermissionList).pending

    def models(self) -> list[ModelRow]:
        """What `model` in a send may name."""
        return self._get("/v1/models", ModelList).models

    def providers(self) -> list[ProviderRow]:
        """The chain's entries in order, and how they do."""
        return self._get("/v1/providers", ProviderList).providers

    def usage(self, group: Group = "day", since: str | None = None, until: str | None = None) -> UsageReport:
        """The ledger's sums, between two times (RFC 3339) where given."""
        return self._get("/v1/usage", UsageReport, **{"group": group, "from": since, "to": until})

    def health(self) -> Health:
        """Whether the server can do its work."""
        return self._get("/health", Health)

    def _open(self, session_id: str, what: str, body: Fields, key: str | None) -> TurnStream:
        path, headers = f"{_session(session_id)}/{what}", {"Idempotency-Key": key or _new_key()}
        response = self._server.patiently(
            lambda: self._server.stream("POST", path, body=body, headers=headers)
        )
        return TurnStream(self._server, session_id, response)

    def _get(self, path: str, kind: type[T], **query: Any) -> T:
        return self._server.patiently(lambda: self._server.call("GET", path, kind, query=_given(**query)))


def _session(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value: what was not said stays off the wire."""
    return {name: value for name, value in fields.items() if value is not None}


def _new_key() -> str:
    return str(uuid.uuid4())
