"""The log as a person reads it."""

from collections.abc import Iterable
from typing import Any

from timothy.eventlog.records import Record

Item = dict[str, Any]

ITEM_KINDS = {
    "user_message": "user",
    "assistant_turn": "assistant",
    "pending_state": "partial",
    "turn_failed": "failure",
    "tool_execution": "tool",
    "permission_request": "permission",
    "failover": "failover",
    "compaction_applied": "compaction",
}


def transcript(records: Iterable[Record], open_permissions: frozenset[str] = frozenset()) -> list[Item]:
    """The items of the records, oldest first; a permission request only while it is open."""
    return [_item(record) for record in records if _shown(record, open_permissions)]


def _shown(record: Record, open_permissions: frozenset[str]) -> bool:
    if record.kind == "permission_request":
        return record.payload["id"] in open_permissions
    return record.kind in ITEM_KINDS


def _item(record: Record) -> Item:
    return {
        **record.payload,
        "seq": record.seq,
        "turn_id": record.turn_id,
        "kind": ITEM_KINDS[record.kind],
        "created_at": record.created_at,
    }
