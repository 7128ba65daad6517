"""Files that a person attached to a message: kept once in the home by their hash, named in the log."""

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from timothy.errors import BadRequest, NotFound
from timothy.eventlog import files
from timothy.eventlog.records import Payload, Record
from timothy.text import honest

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MOST = 10


class Attachment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As a request carries it: a text file has `text`, an image `data` in base64."""

    name: str
    media_type: str
    text: str | None = None
    data: str | None = None


def parse(value: Any) -> list[Attachment]:
    """The attachments of a request. Raises BadRequest, which says what is allowed."""
    try:
        found = msgspec.convert(value, list[Attachment])
    except msgspec.ValidationError as error:
        raise BadRequest(
            f"`attachments` must be a list of objects with name, media_type, text or data: {error}"
        ) from error
    if len(found) > MOST:
        raise BadRequest(f"`attachments` has {len(found)} entries; at most {MOST} are allowed")
    for attachment in found:
        _check(attachment)
    return found


def described(attachments: list[Attachment]) -> list[Payload]:
    """What the log keeps of each: `name`, `media_type`, `bytes`, `sha256`. Raises BadRequest."""
    return [_described(attachment, _raw(attachment)) for attachment in attachments]


def keep(home: Path, attachments: list[Attachment]) -> list[Payload]:
    """Store the contents in the home; what the log keeps of each. Raises OSError.

    Hold the files (`files.hold`) from before until the message that names them is in the log.
    """
    return [_keep(home, attachment) for attachment in attachments]


def content(home: Path, digest: str) -> bytes:
    """The stored bytes. Raises NotFound."""
    path = files.path(home, digest)
    if path is None or not path.is_file():
        raise NotFound(f"no attachment {digest[:80]}")
    return path.read_bytes()


def named(records: Iterable[Record]) -> set[str]:
    """The hashes of the files that these records' messages name."""
    return {entry["sha256"] for record in records for entry in _entries(record)}


def filled(home: Path, record: Record) -> Record:
    """A user message's record with its attachments' contents; one that is gone is named as such."""
    kept = _entries(record)
    if not kept:
        return record
    return msgspec.structs.replace(
        record, payload={**record.payload, "attachments": [_filled(home, entry) for entry in kept]}
    )


def _entries(record: Record) -> list[Payload]:
    return (record.payload.get("attachments") or []) if record.kind == "user_message" else []


def _filled(home: Path, entry: Payload) -> Payload:
    try:
        raw = content(home, entry["sha256"])
    except NotFound:
        return {**entry, "media_type": "text/plain", "text": "(this file is not there any more)"}
    if entry["media_type"] in IMAGES:
        return {**entry, "data": base64.b64encode(raw).decode()}
    return {**entry, "text": raw.decode("utf-8", "replace")}


def _check(attachment: Attachment) -> None:
    name = attachment.name.strip()
    if not 0 < len(name) <= 200:
        raise BadRequest("an attachment's `name` must have 1 to 200 characters")
    if attachment.media_type in IMAGES:
        if attachment.data is None:
            raise BadRequest(f"the image {name!r} needs `data`, its bytes in base64")
    elif attachment.text is None:
        raise BadRequest(
            f"{name!r}: attach a text file with `text`, or an image of {', '.join(IMAGES)} with `data`"
        )


def _keep(home: Path, attachment: Attachment) -> Payload:
    raw = _raw(attachment)
    kept = _described(attachment, raw)
    if not (files.folder(home) / kept["sha256"]).exists():
        files.put(home, kept["sha256"], [raw])
    return kept


def _described(attachment: Attachment, raw: bytes) -> Payload:
    named = {"name": honest(attachment.name.strip()), "media_type": attachment.media_type}
    return {**named, "bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def _raw(attachment: Attachment) -> bytes:
    if attachment.media_type not in IMAGES:
        return honest(attachment.text or "").encode()
    try:
        return base64.b64decode(attachment.data or "", validate=True)
    except ValueError as error:  # of binascii, or of a text that is not ASCII
        raise BadRequest(f"the image {attachment.name!r}: `data` is no base64: {error}") from error
