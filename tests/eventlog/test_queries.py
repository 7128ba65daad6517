"""Reading the log: pages without gaps, words found as they are written."""

import pytest

from tests.eventlog.orders import ATTEMPT, answer, append, begin, create, end, failure, partial, tool
from timothy.database import Sessions
from timothy.eventlog import queries
from timothy.eventlog.records import Row


def request(permission_id, turn_id="t"):
    return append(Row("permission_request", {"id": permission_id}), turn_id=turn_id)


def resolved(permission_id, decision="once", turn_id="t"):
    return append(Row("permission_resolved", {"id": permission_id, "decision": decision}), turn_id=turn_id)


def test_what_is_not_there_is_none(log):
    assert queries.session(log.reader, "s") is None
    assert queries.turn(log.reader, "s", "t") is None
    assert queries.turn_by_key(log.reader, "s", "k") is None
    assert queries.last_turn(log.reader, "s") is None
    assert queries.last_user_message(log.reader, "s") is None
    assert queries.permission(log.reader, "p") is None
    assert queries.last_seq(log.reader, "s") == 0
    assert queries.items(log.reader, "s", before=None, limit=5) == ([], False)


def test_a_page_of_sessions_follows_the_other_without_gap_or_repeat(log):
    names = [f"s{number:02}" for number in range(25)]
    log.write(*(create(name) for name in names))
    seen, after = [], None
    while page := queries.sessions(log.reader, limit=4, after=after):
        seen += [row["id"] for row in page]
        after = page[-1]["activity"]
    assert seen == names[::-1]


def test_the_newest_activity_comes_first_whatever_the_clock_says(log):
    log.write(create("old"), create("new"), begin("t", "old"))
    Sessions.update(updated_at="2999").where(Sessions.id == "new").execute(log.database)
    assert [row["id"] for row in queries.sessions(log.reader, limit=9)] == ["old", "new"]
    log.write(end("t", "old"), create("newest"), create("quiet"), begin("u", "newest"))
    names = [row["id"] for row in queries.sessions(log.reader, limit=9)]
    assert names == ["newest", "quiet", "old", "new"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hello", {"s"}),
        ("HELLO", {"s"}),
        ("100%", {"percent"}),
        ("%", {"percent"}),
        ("a_b", {"underscore"}),
        ("_", {"underscore"}),
        ("back\\slash", {"backslash"}),
        ("it's", {"quote"}),
        ('say "yes"', {"quoted"}),
        ('SAY "', {"quoted"}),
        ("two\nlines", {"lines"}),
        ("tab\there", {"lines"}),
        ("\\n", set()),
        ("stra\u00dfe f\u00fcr", {"umlaut"}),
        ("\u00c4pfel", {"umlaut"}),
        ("F\u00dcR \u00e4PF", {"umlaut"}),
        ("\u041c\u0418\u0420", {"cyrillic"}),
        ("\u043c\u0438\u0440 %", set()),
        ("\u5929\u6c17", {"cjk"}),
        ("a/b", {"slash"}),
        ("finish_reason", set()),
        ("half an ans", {"partial"}),
        ("no room now", {"partial"}),
        ("too busy", {"failed"}),
        ("A title", {"titled"}),
        ("no such words", set()),
    ],
)
def test_search_finds_titles_messages_answers_partials_and_failures(log, words, found):
    told = {
        "s": "Hello there",
        "percent": "100% sure",
        "underscore": "a_b",
        "other": "axb 1000 sure",
        "backslash": "back\\slash",
        "quote": "it's",
        "quoted": 'say "yes" now',
        "lines": "two\nlines, a tab\there",
        "umlaut": "Stra\u00dfe f\u00fcr \u00c4pfel",
        "cyrillic": "\u041c\u0438\u0440 5",
        "cjk": "\u6771\u4eac\u306e\u5929\u6c17",
        "slash": "a/b",
        "partial": "x",
        "failed": "x",
    }
    for name, text in told.items():
        log.write(create(name), begin(f"t-{name}", name, text=text))
    log.write(end("t-partial", "partial", evidence=partial("half an answer", message="no room now")))
    log.write(end("t-failed", "failed", evidence=Row("turn_failed", {"code": "c", "message": "too busy"})))
    log.write(create("titled", title="A title"))
    assert {row["id"] for row in queries.sessions(log.reader, limit=50, search=words)} == found


def test_a_page_of_what_was_found_follows_the_other_without_gap_or_repeat(log):
    names = [f"s{number:02}" for number in range(9)]
    for number, name in enumerate(names):
        log.write(create(name), begin(f"t-{name}", name, text="plum" if number % 2 else "pear"))
    seen, after = [], None
    while page := queries.sessions(log.reader, limit=2, search="plum", after=after):
        seen += [row["id"] for row in page]
        after = page[-1]["activity"]
    assert seen == ["s07", "s05", "s03", "s01"]


def test_archived_sessions_can_be_left_out_or_asked_for(log):
    log.write(create("a"), create("b"))
    Sessions.update(archived=True).where(Sessions.id == "a").execute(log.database)
    assert [row["id"] for row in queries.sessions(log.reader, limit=9, archived=True)] == ["a"]
    assert [row["id"] for row in queries.sessions(log.reader, limit=9, archived=False)] == ["b"]
    assert len(queries.sessions(log.reader, limit=9)) == 2


def test_raw_rows_come_after_a_seq_and_not_too_many(log):
    log.write(create(), begin(), *(append(tool(f"c{number}")) for number in range(5)))
    assert [row.seq for row in queries.events(log.reader, "s", 2, 3)] == [3, 4, 5]
    assert [row.seq for row in queries.events(log.reader, "s", 6, 3)] == [7]
    assert queries.last_seq(log.reader, "s") == 7


def test_items_are_the_newest_page_in_order_and_say_whether_there_are_more(log):
    log.write(create(), begin(), *(append(tool(f"c{number}")) for number in range(5)), end())
    items, more = queries.items(log.reader, "s", before=None, limit=3)
    assert ([item["seq"] for item in items], more) == ([6, 7, 8], True)
    items, more = queries.items(log.reader, "s", before=6, limit=4)
    assert ([item["seq"] for item in items], more) == ([2, 3, 4, 5], False)
    assert [item["kind"] for item in items] == ["user", "tool", "tool", "tool"]


def test_a_permission_is_an_item_while_it_is_open_and_its_turn_runs(log):
    log.write(create(), begin(), request("p"), request("q"), resolved("q"))
    items, _ = queries.items(log.reader, "s", before=None, limit=9)
    assert [item["id"] for item in items if item["kind"] == "permission"] == ["p"]
    log.write(end())
    items, _ = queries.items(log.reader, "s", before=None, limit=9)
    assert [item["kind"] for item in items] == ["user", "assistant"]


def test_a_permissions_decision_is_the_first_one(log):
    log.write(create(), begin(), request("p"))
    assert queries.permission(log.reader, "p") == {"session_id": "s", "decision": None}
    log.write(resolved("p", "deny"), resolved("p", "cancelled"))
    assert queries.permission(log.reader, "p") == {"session_id": "s", "decision": "deny"}


def test_what_is_looked_up_among_all_sessions_is_not_searched_for_row_by_row(log, monkeypatch):
    statements = []
    monkeypatch.setattr(log.reader, "execute_sql", _noting(log.reader.execute_sql, statements))
    queries.permission(log.reader, "p")
    queries.attached(log.reader)
    plans = [" ".join(str(step) for step in _plan(log.reader, *statement)) for statement in statements]
    assert "session_events_by_permission" in plans[0] and "session_events_with_files" in plans[1]


def _noting(execute_sql, statements):
    def noting(sql, parameters=()):
        statements.append((sql, parameters))
        return execute_sql(sql, parameters)

    return noting


def _plan(database, sql, parameters):
    return database.connection().execute(f"EXPLAIN QUERY PLAN {sql}", parameters or ()).fetchall()


def test_a_turn_is_shown_with_its_attempts_in_order(log):
    log.write(create(), begin(), append(attempt=ATTEMPT), append(attempt=ATTEMPT))
    turn = queries.turn(log.reader, "s", "t")
    assert (turn["state"], turn["outcome"], turn["usage"]) == ("running", None, None)
    assert [set(attempt) for attempt in turn["attempts"]] == [set(ATTEMPT.__struct_fields__)] * 2
    assert queries.turn(log.reader, "other", "t") is None


def test_a_key_finds_its_turn_with_its_message_in_its_session_only(log):
    log.write(create(), create("u"), begin(idempotency_key="k", text="Hello"))
    found = queries.turn_by_key(log.reader, "s", "k")
    asked = (found["text"], found["attachments"])
    assert (found["id"], found["mode"], asked) == ("t", "new", ("Hello", None))
    assert queries.turn_by_key(log.reader, "u", "k") is None


def test_the_last_turn_is_the_one_that_was_written_last_whatever_the_clock_says(log):
    log.write(create(), begin("early", started_at="2030"), end("early"), begin("late", started_at="2020"))
    assert queries.last_turn(log.reader, "s")["id"] == "late"
    assert queries.last_user_message(log.reader, "s").turn_id == "late"


def test_the_records_of_a_turn_end_with_its_evidence(log):
    log.write(create(), begin(), append(tool()), end(evidence=failure()))
    assert [record.kind for record in queries.turn_records(log.reader, "t")] == [
        "user_message",
        "tool_execution",
        "turn_failed",
    ]


def test_the_context_begins_where_the_newest_compaction_ends(log):
    log.write(create(), begin(), end(), begin("u"))
    compaction = Row("compaction_applied", {"summary": "x", "upto_seq": 3})
    log.write(append(compaction, turn_id="u"))
    assert [record.kind for record in queries.context_records(log.reader, "s")] == [
        "user_message",
        "compaction_applied",
    ]


def test_the_files_that_messages_name_are_known_by_their_hash(log):
    files = [{"name": name, "media_type": "text/plain", "bytes": 1, "sha256": name * 64} for name in "ab"]
    log.write(create(), begin("t", payload={"text": "look", "attachments": files}), end())
    log.write(begin("u", text='"attachments" is only a word here'), end("u"), create("v"))
    log.write(begin("v", "v", payload={"text": "", "attachments": files[1:]}))
    assert queries.attached(log.reader) == {"a" * 64, "b" * 64}


def test_outcomes_are_counted(log):
    log.write(create(), begin("a"), end("a"), begin("b"), end("b", outcome="failed", evidence=failure()))
    log.write(begin("c"), end("c", evidence=answer()), begin("d"))
    assert queries.outcomes(log.reader) == [("completed", 2), ("failed", 1)]


def test_turns_that_continued_are_known(log):
    log.write(create(), begin("a"), end("a", evidence=partial(), outcome="stopped"))
    log.write(begin("b", mode="continue", user_seq=2, last_turn_id="a"))
    assert queries.continuations(log.reader, "s") == ["b"]
