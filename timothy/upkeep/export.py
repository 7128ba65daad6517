"""One session on its way out or in: Markdown for people, JSON lines for another Timothy."""

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import peewee

from timothy.errors import BadRequest
from timothy.eventlog import queries
from timothy.eventlog.records import ImportSession, Record
from timothy.eventlog.transcript import Item, transcript
from timothy.moment import stamp
from timothy.text import to_json

FORMAT = 1
# What a row's readers count on, by its kind.
_FIELDS = {
    "session_started": "",
    "user_message": "text",
    "assistant_turn": "text",
    "pending_state": "text code message",
    "turn_failed": "code message",
    "tool_execution": "call_id name input status result",
    "permission_request": "id tool input",
    "permission_resolved": "id decision",
    "failover": "from to code",
    "compaction_applied": "summary upto_seq",
    "title_set": "title",
}
_OF_FILE = ("name", "media_type", "sha256")


def markdown(session: dict[str, Any], records: Iterable[Record]) -> str:
    """The conversation as a person reads it, partials and failures with their reason."""
    title = session["title"] or "Untitled conversation"
    parts = [f"# {title}", f"*{session['created_at']}*"]
    parts += [_words(item) for item in transcript(records)]
    return "\n\n".join(parts) + "\n"


def json_lines(session: dict[str, Any], records: Iterable[Record]) -> Iterator[str]:
    """A header line, then one line for every row of the log."""
    about = {"title": session["title"], "created_at": session["created_at"]}
    yield to_json({"timothy_export": FORMAT, "session": about, "exported_at": stamp()}).decode() + "\n"
    for record in records:
        row = {"seq": record.seq, "turn_id": record.turn_id, "kind": record.kind}
        yield to_json({**row, "payload": record.payload, "created_at": record.created_at}).decode() + "\n"


def exported(database: peewee.SqliteDatabase, session: dict[str, Any], form: str) -> str:
    """The whole session as one text: `form` is markdown or jsonl."""
    records = queries.events(database, session["id"], 0, -1)
    return markdown(session, records) if form == "markdown" else "".join(json_lines(session, records))


def parse(lines: Iterable[str]) -> ImportSession:
    """The order that brings exported lines in as a new session. Raises BadRequest, naming the line."""
    session_id = str(uuid.uuid4())
    header: dict[str, Any] | None = None
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _row(number, line)
        if header is None:
            header = _header(row)
        else:
            records.append(_record(number, session_id, len(records) + 1, row))
    if header is None or not records:
        raise BadRequest("this is no export of a session: there is nothing in it")
    title = header.get("title")
    return ImportSession(
        append_id=str(uuid.uuid4()), session_id=session_id, title=title, records=tuple(records)
    )


def _row(number: int, line: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise BadRequest(f"line {number} is no JSON object: {error}") from error


def _header(row: dict[str, Any]) -> dict[str, Any]:
    if row.get("timothy_export") != FORMAT or not isinstance(row.get("session"), dict):
        raise BadRequest(f"line 1 is not the header of an export of format {FORMAT}")
    header: dict[str, Any] = row["session"]
    return header


def _record(number: int, session_id: str, seq: int, row: dict[str, Any]) -> Record:
    try:
        record = msgspec.convert({**row, "session_id": session_id, "seq": seq}, Record)
    except msgspec.ValidationError as error:
        raise BadRequest(f"line {number} is no row of a log: {error}") from error
    if record.kind not in _FIELDS:
        raise BadRequest(f"line {number}: no kind {record.kind[:80]!r}; there are: {', '.join(_FIELDS)}")
    lacking = [name for name in _FIELDS[record.kind].split() if name not in record.payload]
    if lacking:
        raise BadRequest(f"line {number}: the payload of a {record.kind} lacks {', '.join(lacking)}")
    if not _names_files_well(record.payload.get("attachments")):
        raise BadRequest(f"line {number}: `attachments` is no list of objects with {', '.join(_OF_FILE)}")
    return record


def _names_files_well(value: Any) -> bool:
    if not isinstance(value, list):
        return value is None
    entries = [entry if isinstance(entry, dict) else {} for entry in value]
    return all(isinstance(entry.get(name), str) for entry in entries for name in _OF_FILE)


def _words(item: Item) -> str:
    match item["kind"]:
        case "user":
            return f"## You\n\n{item['text']}"
        case "assistant":
            note = f"\n\n*(cut short: {item['incomplete']})*" if item.get("incomplete") else ""
            return f"## Assistant\n\n{item['text']}{note}"
        case "partial":
            return f"## Assistant\n\n{item['text']}\n\n*(cut: {item['message']} — {item['code']})*"
        case "failure":
            return f"## Assistant\n\n*(failed: {item['message']} — {item['code']})*"
        case "tool":
            return f"**{item['name']}** ({item['status']})\n\n{_fenced(item['result'])}"
        case "failover":
            return f"*({item['from']} failed with {item['code']}; {item['to']} went on)*"
        case _:
            return f"*(earlier parts were summed up for the model)*\n\n{item.get('summary', '')}"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
