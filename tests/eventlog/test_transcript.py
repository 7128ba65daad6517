"""The log as a person reads it."""

import pytest

from timothy.eventlog.records import Record
from timothy.eventlog.transcript import transcript


def record(kind, seq=1, **payload):
    return Record("s", seq, "t", kind, payload, "now")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("user_message", "user"),
        ("assistant_turn", "assistant"),
        ("pending_state", "partial"),
        ("turn_failed", "failure"),
        ("tool_execution", "tool"),
        ("failover", "failover"),
        ("compaction_applied", "compaction"),
    ],
)
def test_what_a_person_reads_keeps_all_its_fields(kind, shown):
    (item,) = transcript([record(kind, 7, text="a", code="b")])
    assert item == {"seq": 7, "turn_id": "t", "kind": shown, "created_at": "now", "text": "a", "code": "b"}


@pytest.mark.parametrize("kind", ["session_started", "permission_resolved", "title_set"])
def test_bookkeeping_is_not_shown(kind):
    assert transcript([record(kind, id="p")]) == []


def test_a_permission_is_shown_while_it_is_open():
    asked = [record("permission_request", 1, id="p"), record("permission_request", 2, id="q")]
    assert [item["id"] for item in transcript(asked, frozenset({"q"}))] == ["q"]
    assert transcript(asked) == []


def test_a_field_of_a_payload_never_hides_the_rows_own():
    payload = {"seq": 99, "kind": "x", "turn_id": "y", "created_at": "z"}
    (item,) = transcript([Record("s", 7, "t", "user_message", payload, "now")])
    assert (item["seq"], item["kind"], item["turn_id"], item["created_at"]) == (7, "user", "t", "now")
