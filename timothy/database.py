"""The database file: its tables, and how it is opened."""

import logging
from pathlib import Path
from typing import Any

import peewee

FILE_NAME = "timothy.db"
BUSY_TIMEOUT_S = 1.0
HOLDS_FOLDED = "holds_folded"  # (text, words): whether it holds the folded words in any case

# Queries run in native threads, where a lock of `logging` shared with the event loop can stick.
logging.getLogger("peewee").disabled = True


class Sessions(peewee.Model):
    """One conversation. `origin` is JSON of what it was branched from, `tools_off` a list.

    `activity` is highest for the session that was active last, whatever the time of day was taken for.
    """

    id = peewee.TextField(primary_key=True)
    title = peewee.TextField(null=True)
    archived = peewee.BooleanField(default=False)
    created_at = peewee.TextField()
    updated_at = peewee.TextField()
    origin = peewee.TextField(null=True)
    tools_off = peewee.TextField(default="[]")
    activity = peewee.IntegerField(default=0)

    class Meta:
        table_name = "sessions"


class SessionEvents(peewee.Model):
    """One row of a session's append-only log."""

    id = peewee.AutoField()
    session_id = peewee.TextField()
    seq = peewee.IntegerField()
    turn_id = peewee.TextField(null=True)
    kind = peewee.TextField()
    payload = peewee.TextField()
    created_at = peewee.TextField()
    append_id = peewee.TextField(null=True)

    class Meta:
        table_name = "session_events"


class Turns(peewee.Model):
    """One turn; `user_seq` is the row of the message that it answers, `mode` is new, again or continue."""

    id = peewee.TextField(primary_key=True)
    session_id = peewee.TextField()
    state = peewee.TextField(default="running")
    mode = peewee.TextField(default="new")
    outcome = peewee.TextField(null=True)
    code = peewee.TextField(null=True)
    message = peewee.TextField(null=True)
    started_at = peewee.TextField()
    ended_at = peewee.TextField(null=True)
    usage = peewee.TextField(null=True)
    cost = peewee.FloatField(null=True)
    provider = peewee.TextField(null=True)
    model = peewee.TextField(null=True)
    idempotency_key = peewee.TextField(null=True)
    user_seq = peewee.IntegerField()
    requested_model = peewee.TextField(null=True)
    request_id = peewee.TextField(null=True)

    class Meta:
        table_name = "turns"


class PendingStates(peewee.Model):
    """A piece of a running turn's text, saved before the turn ends; gone when its evidence is there."""

    id = peewee.AutoField()
    turn_id = peewee.TextField()
    number = peewee.IntegerField()
    text = peewee.TextField()
    reasoning = peewee.TextField()
    provider = peewee.TextField(null=True)
    model = peewee.TextField(null=True)
    saved_at = peewee.TextField()

    class Meta:
        table_name = "pending_states"


class ToolStarts(peewee.Model):
    """A call that may have had an effect and whose end is not recorded yet."""

    id = peewee.AutoField()
    turn_id = peewee.TextField()
    call_id = peewee.TextField()
    name = peewee.TextField()
    input = peewee.TextField()

    class Meta:
        table_name = "tool_starts"


class Attempts(peewee.Model):
    """One row of the ledger: one attempt at one provider."""

    id = peewee.AutoField()
    session_id = peewee.TextField()
    turn_id = peewee.TextField()
    provider = peewee.TextField()
    model = peewee.TextField()
    status = peewee.TextField()
    code = peewee.TextField(null=True)
    input_tokens = peewee.IntegerField(null=True)
    output_tokens = peewee.IntegerField(null=True)
    cached_tokens = peewee.IntegerField(null=True)
    cost = peewee.FloatField(null=True)
    first_token_ms = peewee.IntegerField(null=True)
    duration_ms = peewee.IntegerField(null=True)
    started_at = peewee.TextField()
    append_id = peewee.TextField()

    class Meta:
        table_name = "attempts"


class Grants(peewee.Model):
    """A person's "for this session": one tool with one subject, until `expires_at`."""

    id = peewee.AutoField()
    session_id = peewee.TextField()
    tool = peewee.TextField()
    subject = peewee.TextField()
    expires_at = peewee.TextField()

    class Meta:
        table_name = "grants"


class Settings(peewee.Model):
    """One value that a person set while the server ran."""

    key = peewee.TextField(primary_key=True)
    value = peewee.TextField()

    class Meta:
        table_name = "settings"


def open_database(path: Path, *, read_only: bool = False) -> peewee.SqliteDatabase:
    """One open connection to the file, for one native thread at a time.

    Writers commit with `synchronous=FULL` in WAL mode; a lock is waited for up to 1 s.
    """
    pragmas: list[tuple[str, Any]] = [
        ("journal_mode", "wal"),
        ("synchronous", "full"),
        ("cache_size", -16000),
    ]
    if read_only:
        pragmas = [("query_only", 1), ("cache_size", -16000)]
    database = peewee.SqliteDatabase(
        str(path), pragmas=pragmas, timeout=BUSY_TIMEOUT_S, thread_safe=False, check_same_thread=False
    )
    database.register_function(_holds_folded, HOLDS_FOLDED, 2, deterministic=True)
    database.connect()
    return database


def _holds_folded(text: str | None, words: str) -> bool:
    return text is not None and words in text.casefold()
