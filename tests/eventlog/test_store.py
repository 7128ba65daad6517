"""The single writer: all or each alone, every seq in its place, a repeat changes nothing."""

import sqlite3

import peewee
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.eventlog import orders
from tests.eventlog.orders import ATTEMPT, append, begin, create, end, fresh, partial, tool
from timothy.eventlog import queries
from timothy.eventlog.records import (
    DeleteSession,
    Grant,
    Piece,
    Refused,
    RevokeGrant,
    Row,
    ToolStart,
    UpdateSession,
    Written,
)
from timothy.eventlog.rows import execute
from timothy.eventlog.store import Writer
from timothy.events import Tokens

PIECE = Piece(1, "Hal", "hm", "p", "m")
START = ToolStart("c", "write_file", {"path": "a"})


def test_a_turn_from_its_beginning_to_its_end(log):
    log.write(create(title="T"))
    assert log.write(begin(idempotency_key="k", model="m", request_id="r")) == [Written(3)]
    log.write(append(tool(), piece=PIECE, attempt=ATTEMPT, tool_start=START))
    usage = Tokens(1, 2, None)
    assert log.write(end(usage=usage, cost=0.5)) == [Written(5, "T")]
    assert log.kinds() == ["session_started", "title_set", "user_message", "tool_execution", "assistant_turn"]
    assert [row.seq for row in log.rows()] == [1, 2, 3, 4, 5]
    assert [row.turn_id for row in log.rows()] == [None, None, "t", "t", "t"]
    turn = queries.turn(log.reader, "s", "t")
    assert (turn["state"], turn["outcome"], turn["cost"]) == ("ended", "completed", 0.5)
    assert turn["usage"] == {"input_tokens": 1, "output_tokens": 2, "cached_tokens": None}
    assert [attempt["cost"] for attempt in turn["attempts"]] == [0.5]


def test_the_evidence_takes_the_pieces_and_the_tool_starts_with_it(log):
    log.write(create(), begin(), append(piece=PIECE), append(tool_start=START))
    assert (log.count("pending_states"), log.count("tool_starts")) == (1, 1)
    log.write(end(evidence=partial()))
    assert (log.count("pending_states"), log.count("tool_starts")) == (0, 0)


def test_a_tools_end_takes_its_start_with_it(log):
    log.write(create(), begin(), append(tool_start=START), append(tool(), tool_end="c"))
    assert log.count("tool_starts") == 0


def test_a_request_that_a_dead_turn_recorded_but_never_showed_is_closed_with_it(log):
    request, answered = ({"id": name, "tool": "write_file"} for name in ("p", "q"))
    log.write(create(), begin(), append(Row("permission_request", request)))
    log.write(
        append(
            Row("permission_request", answered), Row("permission_resolved", {"id": "q", "decision": "once"})
        )
    )
    log.write(end(evidence=partial(code="turn_aborted"), outcome="failed", code="turn_aborted"))
    *_, closed, evidence = log.rows()
    assert (closed.kind, closed.payload) == ("permission_resolved", {"id": "p", "decision": "cancelled"})
    assert evidence.kind == "pending_state"
    assert log.kinds().count("permission_resolved") == 2


def test_an_end_made_from_what_was_shown_records_nothing_twice(log):
    resolved = Row("permission_resolved", {"id": "p", "decision": "once"})
    log.write(create(), begin(), append(resolved), append(tool("a")))
    cancelled = Row("permission_resolved", {"id": "p", "decision": "cancelled"})
    log.write(end(rows=(cancelled, tool("a", status="cancelled"), tool("b")), evidence=partial()))
    ended = [(row.kind, row.payload.get("decision") or row.payload.get("call_id")) for row in log.rows()[2:]]
    assert ended == [
        ("permission_resolved", "once"),
        ("tool_execution", "a"),
        ("tool_execution", "b"),
        ("pending_state", None),
    ]


def test_what_a_title_cost_is_not_booked_in_a_deleted_session(log):
    log.write(create(), begin(), end(), append(attempt=ATTEMPT))
    log.write(DeleteSession(append_id=fresh(), session_id="s"))
    assert log.try_to(append(attempt=ATTEMPT)) == Refused("not_found", "no session s")
    assert log.count("attempts") == 0


def test_a_whole_batch_is_one_commit(log):
    before = execute(log.reader, "PRAGMA data_version")
    log.write(create(), begin(), *(append(tool(f"c{number}")) for number in range(50)), end())
    after = execute(log.reader, "PRAGMA data_version")
    assert after[0][0] == before[0][0] + 1
    assert len(log.rows()) == 53


def test_one_bad_order_does_not_take_its_neighbours_with_it(log):
    log.write(create("s"), create("u"), begin(), begin("v", "u"))
    bad = append(Row("tool_execution", {"n": object()}))
    written, refused, *rest = log.writer.commit(
        [append(tool()), bad, append(tool("d")), end(), append(tool("e")), end("v", "u")]
    )
    assert isinstance(refused, Refused) and refused.code == "append_refused"
    assert (written, rest[0]) == (Written(3), Written(4))
    assert isinstance(rest[2], Refused)  # behind the evidence
    assert log.kinds()[2:] == ["tool_execution", "tool_execution", "assistant_turn"]
    assert log.kinds("u")[-1] == "assistant_turn"
    assert [row.seq for row in log.rows()] == [1, 2, 3, 4, 5]


def test_a_second_evidence_is_refused_and_the_first_stays(log):
    log.write(create(), begin(), end(evidence=partial("first")))
    verdict = log.try_to(end(evidence=orders.answer("second"), attempt=ATTEMPT))
    assert isinstance(verdict, Refused)
    assert log.rows()[-1].payload["text"] == "first"
    assert log.count("attempts") == 0
    assert queries.turn(log.reader, "s", "t")["outcome"] == "completed"


@pytest.mark.parametrize(
    "order",
    [
        append(tool()),
        append(piece=PIECE),
        append(attempt=ATTEMPT),
        append(tool_start=START),
        append(tool(), tool_end="c"),
        append(Row("permission_resolved", {"id": "p"}), grant=Grant("a", "b", "3000")),
        end(attempt=ATTEMPT),
        end(evidence=partial(), rows=(tool(),)),
        UpdateSession(append_id=fresh(), session_id="s", title="New", archived=True),
    ],
    ids=lambda order: type(order).__name__,
)
def test_a_repeated_order_changes_nothing(log, order):
    log.write(create(), begin())
    log.write(order)
    before = list(log.database.connection().iterdump())
    log.write(order)
    log.write(order, order)
    assert list(log.database.connection().iterdump()) == before


@pytest.mark.parametrize(
    "fields",
    [{}, {"idempotency_key": "k"}, {"mode": "again", "user_seq": 2, "last_turn_id": "old"}],
    ids=["plain", "with a key", "retry"],
)
def test_a_repeated_beginning_is_the_same_beginning(log, fields):
    log.write(create(), begin("old"), end("old", evidence=partial(), outcome="stopped"))
    order = begin(**fields)
    first = log.write(order)
    before = list(log.database.connection().iterdump())
    assert log.write(order) == first
    assert list(log.database.connection().iterdump()) == before
    log.write(end(), order)  # and after the end too
    assert queries.turn(log.reader, "s", "t")["state"] == "ended"


def test_a_repeat_after_a_restart_changes_nothing_either(log):
    order = end(attempt=ATTEMPT)
    log.write(create(), begin(), order)
    again = Writer(log.database)
    assert isinstance(again.commit([order])[0], Written)
    assert len(log.rows()) == 3


@pytest.mark.parametrize(
    ("order", "code"),
    [
        (begin(session_id="nowhere"), "not_found"),
        (begin(idempotency_key="used"), "key_used"),
        (begin(mode="again", user_seq=2, last_turn_id="other"), "no_retryable_turn"),
        (begin(mode="again", user_seq=2, last_turn_id=None), "no_retryable_turn"),
        (begin(mode="continue", user_seq=2, last_turn_id="old"), "no_retryable_turn"),
        (UpdateSession(append_id="a", session_id="nowhere", title="T"), "not_found"),
        (DeleteSession(append_id="a", session_id="nowhere"), "not_found"),
        (RevokeGrant(append_id="a", session_id="", grant_id=9), "not_found"),
    ],
)
def test_an_order_whose_ground_is_gone_is_refused_and_leaves_nothing(log, order, code):
    log.write(create(), begin("old", idempotency_key="used"), end("old"))
    before = list(log.database.connection().iterdump())
    verdict = log.try_to(order)
    assert isinstance(verdict, Refused) and verdict.code == code
    if code == "key_used":
        assert verdict.turn_id == "old"
    assert list(log.database.connection().iterdump()) == before


@pytest.mark.parametrize("outcome", ["incomplete", "failed", "stopped", "interrupted"])
def test_any_end_but_a_whole_answer_can_be_retried(log, outcome):
    log.write(create(), begin("old"), end("old", evidence=partial(), outcome=outcome))
    retry = begin(mode="again", user_seq=2, last_turn_id="old")
    assert log.write(retry) == [Written(2)]
    assert log.kinds().count("user_message") == 1


def test_a_second_turn_does_not_begin_while_one_runs(log):
    log.write(create(), begin())
    verdict = log.try_to(begin("u"))
    assert isinstance(verdict, Refused) and verdict.code == "append_refused"
    assert log.kinds().count("user_message") == 1


def test_a_deleted_session_takes_everything_with_it(log):
    log.write(create("other"), create())
    log.write(begin(), append(piece=PIECE), append(tool_start=START), append(tool(), attempt=ATTEMPT))
    log.write(append(grant=Grant("a", "b", "3000")))
    log.write(DeleteSession(append_id=fresh(), session_id="s"))
    for table in ("turns", "attempts", "pending_states", "tool_starts", "grants"):
        assert log.count(table) == 0
    assert log.rows() == [] and len(log.rows("other")) == 1
    log.write(create())
    assert [row.seq for row in log.rows()] == [1]


def test_a_title_is_kept_when_only_an_untitled_session_should_get_one(log):
    log.write(create(), create("u", title="Mine"))
    for session_id in ("s", "u"):
        order = UpdateSession(
            append_id=fresh(), session_id=session_id, title="First words", only_untitled=True
        )
        log.write(order)
    assert queries.session(log.reader, "s")["title"] == "First words"
    assert queries.session(log.reader, "u")["title"] == "Mine"


def test_a_session_is_changed_field_by_field(log):
    log.write(create(title="T"))
    log.write(UpdateSession(append_id=fresh(), session_id="s", archived=True))
    log.write(UpdateSession(append_id=fresh(), session_id="s", tools_off=("web_search",)))
    session = queries.session(log.reader, "s")
    assert (session["title"], session["archived"], session["tools_off"]) == ("T", True, ["web_search"])
    log.write(UpdateSession(append_id=fresh(), session_id="s", archived=False, tools_off=()))
    session = queries.session(log.reader, "s")
    assert (session["archived"], session["tools_off"]) == (False, [])


def test_a_grant_holds_until_it_is_over_or_taken_back(log):
    log.write(create(), begin())
    log.write(append(grant=Grant("a", "over", "2000-01-01T00:00:00.000Z")))
    log.write(append(grant=Grant("a", "holds", "3000-01-01T00:00:00.000Z")))
    (grant,) = queries.grants(log.reader, "s")
    assert (grant["tool"], grant["subject"]) == ("a", "holds")
    assert queries.grants(log.reader) == [grant] and queries.grants(log.reader, "other") == []
    log.write(RevokeGrant(append_id=fresh(), session_id="", grant_id=grant["id"]))
    assert queries.grants(log.reader) == []


def test_no_orders_at_all_is_a_write_that_shows_whether_the_storage_works(log):
    assert log.writer.commit([]) == []
    assert log.count("storage_probe") == 1
    log.writer.commit([])
    assert log.count("storage_probe") == 1


def test_a_storage_fault_takes_back_the_whole_batch_and_no_seq_is_lost(log, monkeypatch):
    log.write(create(), begin())
    holder = sqlite3.connect(log.path, isolation_level=None)
    execute(log.database, "PRAGMA busy_timeout = 20")
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(peewee.OperationalError):
        log.writer.commit([append(tool())])
    holder.execute("ROLLBACK")
    holder.close()
    log.write(append(tool()))
    assert [row.seq for row in log.rows()] == [1, 2, 3]


@pytest.mark.parametrize(
    "error", [OSError("disk"), peewee.OperationalError("full"), peewee.DatabaseError("x")]
)
def test_a_fault_in_the_middle_of_a_batch_leaves_no_gap(log, monkeypatch, error):
    log.write(create(), begin())
    work = log.writer._work
    broken = create("u")

    def fail(order):
        raise error

    monkeypatch.setitem(work, type(broken), fail)
    if isinstance(error, peewee.DatabaseError) and not isinstance(error, peewee.OperationalError):
        assert isinstance(log.writer.commit([append(tool()), broken])[1], Refused)
    else:
        with pytest.raises(type(error)):
            log.writer.commit([append(tool()), broken])
    log.write(append(tool()), end())
    assert [row.seq for row in log.rows()] == list(range(1, len(log.rows()) + 1))


def test_another_writers_rows_are_seen_after_a_refusal(log):
    log.write(create(), begin())
    other = Writer(log.database)
    other.commit([append(tool())])
    assert isinstance(log.try_to(append(tool("d"))), Refused)  # its remembered seq was taken
    log.write(append(tool("e")))
    assert [row.seq for row in log.rows()] == [1, 2, 3, 4]


def test_closing_folds_the_wal_into_the_file(log):
    log.write(create())
    log.reader.close()
    log.writer.close()
    wal = log.path.with_name(log.path.name + "-wal")
    assert not wal.exists() or wal.stat().st_size == 0


def test_text_that_is_not_sound_is_stored_repaired(log):
    log.write(
        create(), begin(text="a\ud800b"), append(tool(result="\udfff")), end(evidence=partial("\ud83d"))
    )
    assert [row.payload.get("text") for row in log.rows()][1] == "a\ufffdb"
    assert log.rows()[-1].payload["text"] == "\ufffd"


steps = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["row", "rows", "bad", "title", "turn"])),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(steps, st.integers(1, 7))
def test_seqs_are_gapless_however_sessions_and_refusals_interleave(log, steps, size):
    session_ids = {name: fresh("session") for name in "abc"}
    log.write(*(create(session_id) for session_id in session_ids.values()))
    batch = [_order(session_ids[name], what) for name, what in steps]
    for start in range(0, len(batch), size):
        log.writer.commit(batch[start : start + size])
    for session_id in session_ids.values():
        seqs = [row.seq for row in log.rows(session_id)]
        assert seqs == list(range(1, len(seqs) + 1))


def _order(session_id, what):
    turn_id = f"{session_id}/{fresh('turn')}"
    match what:
        case "row":
            return append(tool(), turn_id=turn_id, session_id=session_id)
        case "rows":
            return append(tool(), tool("d"), tool("e"), turn_id=turn_id, session_id=session_id)
        case "bad":
            return append(tool(), Row("failover", {"x": object()}), turn_id=turn_id, session_id=session_id)
        case "title":
            return UpdateSession(append_id=fresh(), session_id=session_id, title="T")
        case _:
            return begin(turn_id, session_id)
