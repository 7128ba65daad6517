"""A branch and an import: a log of their own, that says where it is from."""

from tests.eventlog.orders import answer, append, begin, create, end, failure, fresh, partial, tool
from timothy.eventlog import queries
from timothy.eventlog.records import CopySession, ImportSession, Record, Refused


def branch(seq, session_id="copy", source_id="s"):
    ids = {"append_id": fresh(), "session_id": session_id}
    return CopySession(**ids, source_id=source_id, seq=seq, title="Branch")


def told(log, session_id):
    return [(row.seq, row.kind, row.payload) for row in log.rows(session_id)]


def test_a_branch_is_a_copy_up_to_its_seq_with_turns_of_its_own(log):
    log.write(
        create(), begin(), append(tool()), end(), begin("u"), end("u", evidence=partial(), outcome="stopped")
    )
    log.write(branch(4))
    assert told(log, "copy") == told(log, "s")[:4]
    copied = {row.turn_id for row in log.rows("copy") if row.turn_id}
    assert len(copied) == 1 and "t" not in copied
    (turn_id,) = copied
    turn = queries.turn(log.reader, "copy", turn_id)
    assert (turn["state"], turn["outcome"], turn["user_seq"]) == ("ended", "completed", 2)
    assert queries.session(log.reader, "copy")["origin"] == {"session_id": "s", "seq": 4}
    assert [row["id"] for row in queries.branches(log.reader, "s")] == ["copy"]


def test_outcomes_survive_the_copy(log):
    log.write(create())
    for number, (evidence, outcome) in enumerate(
        [
            (answer(), "completed"),
            (answer(incomplete="length"), "incomplete"),
            (partial(code="stopped"), "stopped"),
            (partial(code="interrupted"), "interrupted"),
            (failure(), "failed"),
        ]
    ):
        log.write(begin(f"t{number}"), end(f"t{number}", evidence=evidence, outcome=outcome))
    log.write(branch(queries.last_seq(log.reader, "s")))
    outcomes = dict(queries.outcomes(log.reader))
    assert outcomes == dict.fromkeys(("completed", "incomplete", "stopped", "interrupted", "failed"), 2)


def test_a_turn_that_the_branch_cuts_is_no_turn_of_it(log):
    log.write(create(), begin(), append(tool()), end())
    log.write(branch(3))
    assert [row.turn_id for row in log.rows("copy")] == [None, None, None]
    assert queries.last_turn(log.reader, "copy") is None


def test_a_branch_can_go_on_and_be_branched_again(log):
    log.write(create(), begin(), end(), branch(3))
    log.write(begin("v", "copy"), end("v", "copy"), branch(5, "second", "copy"))
    assert [row.seq for row in log.rows("second")] == [1, 2, 3, 4, 5]
    assert log.kinds("s") == ["session_started", "user_message", "assistant_turn"]


def test_a_repeated_copy_or_import_changes_nothing(log):
    log.write(create(), begin(), end())
    copied = branch(3)
    records = tuple(log.rows())
    imported = ImportSession(append_id=fresh(), session_id="import", title="I", records=records)
    log.write(copied, imported)
    before = list(log.database.connection().iterdump())
    log.write(copied, imported)
    assert list(log.database.connection().iterdump()) == before


def test_a_copy_of_nothing_is_refused(log):
    verdict = log.try_to(branch(1, source_id="nowhere"))
    assert isinstance(verdict, Refused) and verdict.code == "not_found"


def test_an_import_is_read_as_it_was_exported(log):
    log.write(create(), begin(), append(tool()), end(evidence=partial(), outcome="stopped"))
    order = ImportSession(append_id=fresh(), session_id="import", title="I", records=tuple(log.rows()))
    log.write(order)
    assert told(log, "import") == told(log, "s")
    assert queries.session(log.reader, "import")["origin"] is None
    assert queries.session(log.reader, "import")["title"] == "I"


def test_a_long_log_is_imported_whole(log):
    rows = [Record("x", 1, None, "session_started", {}, "now")]
    rows += [Record("x", n, "t", "tool_execution", {"call_id": str(n)}, "now") for n in range(2, 1300)]
    rows.append(Record("x", 1300, "t", "turn_failed", {"code": "c", "message": "m"}, "now"))
    log.write(ImportSession(append_id=fresh(), session_id="long", title=None, records=tuple(rows)))
    assert [row.seq for row in log.rows("long")] == list(range(1, 1301))


def test_an_import_that_breaks_the_logs_rules_leaves_nothing(log):
    rows = (
        Record("x", 1, None, "session_started", {}, "now"),
        Record("x", 2, "t", "turn_failed", {"code": "c", "message": "m"}, "now"),
        Record("x", 3, "t", "tool_execution", {}, "now"),
    )
    order = ImportSession(append_id=fresh(), session_id="bad", title=None, records=rows)
    assert isinstance(log.try_to(order), Refused)
    empty = ImportSession(append_id=fresh(), session_id="bad", title=None, records=())
    assert isinstance(log.try_to(empty), Refused)
    assert (log.rows("bad"), queries.session(log.reader, "bad")) == ([], None)
