"""A session goes out as words or as rows, and comes in again as it was."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.upkeep.conftest import SESSION, attach
from timothy.cli import main
from timothy.database import FILE_NAME, open_database
from timothy.errors import BadRequest
from timothy.eventlog import queries
from timothy.upkeep.doctor import examine
from timothy.upkeep.export import parse

FILE = {"name": "a", "media_type": "text/plain", "sha256": "0" * 64}


def run(*arguments: object) -> str:
    ran = CliRunner().invoke(main, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_markdown_is_the_conversation_as_a_person_reads_it(home: Path) -> None:
    words = run("export", SESSION, "--home", home)
    assert words.startswith("# sums\n")
    assert "## You\n\ntwo and two?" in words
    assert "**calculate** (ok)\n\n````\n```\n4\n````" in words
    assert words.endswith("## Assistant\n\n**4**\n")


def test_what_was_exported_comes_in_as_a_new_session_with_the_same_log(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    run("export", SESSION, "--format", "jsonl", "--output", file, "--home", home)
    new_id = run("import", file, "--home", home).split()[-1]
    database = open_database(home / FILE_NAME, read_only=True)
    old, new = (queries.events(database, session_id, 0, 500) for session_id in (SESSION, new_id))
    assert [(r.seq, r.kind, r.payload) for r in new] == [(r.seq, r.kind, r.payload) for r in old]
    assert {r.turn_id for r in new}.isdisjoint(r.turn_id for r in old if r.turn_id)
    row = queries.session(database, new_id)
    database.close()
    assert row is not None and row["title"] == "sums"
    assert examine(home) == []


HEADER = '{"timothy_export": 1, "session": {"title": null}}'


def row(kind: str, payload: dict[str, object]) -> str:
    return json.dumps({"turn_id": None, "kind": kind, "payload": payload, "created_at": "2026-01-31"})


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "nothing in it"),
        ([HEADER], "nothing in it"),
        (["{"], "line 1 is no JSON object"),
        (['{"timothy_export": 99, "session": {}}'], "line 1 is not the header"),
        ([HEADER, "[]"], "line 2 is no JSON object"),
        ([HEADER, '{"kind": "user_message"}'], "line 2 is no row of a log"),
        ([HEADER, row("magic", {})], "line 2: no kind 'magic'; there are: session_started, user_message"),
        ([HEADER, row("failover", {"from": "a"})], "line 2: the payload of a failover lacks to, code"),
    ],
)
def test_a_file_that_is_no_export_is_refused_with_its_line(lines: list[str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse(lines)


@pytest.mark.usefixtures("impatient")
def test_a_log_that_cannot_be_written_takes_nothing_in_and_says_so(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    run("export", SESSION, "--format", "jsonl", "--output", file, "--home", home)
    before = (home / FILE_NAME).read_bytes()
    with contextlib.closing(sqlite3.connect(home / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ran = CliRunner().invoke(main, ["import", str(file), "--home", str(home)])
        assert (ran.exit_code, "nothing was imported" in ran.stderr) == (1, True), ran.output
        other.execute("ROLLBACK")
    assert (home / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("command", [("import",), ("export", SESSION), ("usage",)])
def test_a_log_that_is_damaged_is_named_in_words(
    command: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "session.jsonl"
    run("export", SESSION, "--format", "jsonl", "--output", file, "--home", home)
    (home / FILE_NAME).write_bytes(b"no database" * 1000)
    given = (*command, str(file)) if command == ("import",) else command
    ran = CliRunner().invoke(main, [*given, "--home", str(home)])
    assert (ran.exit_code, "file is not a database" in ran.stderr) == (1, True), ran.output


def test_an_import_names_the_attached_files_that_did_not_come_along(home: Path, tmp_path: Path) -> None:
    (digest,) = attach(home, "hello")
    file = tmp_path / "session.jsonl"
    run("export", SESSION, "--format", "jsonl", "--output", file, "--home", home)
    here = CliRunner().invoke(main, ["import", str(file), "--home", str(home)])
    assert (here.exit_code, here.stderr) == (0, "")
    elsewhere = CliRunner().invoke(main, ["import", str(file), "--home", str(tmp_path / "new")])
    assert (elsewhere.exit_code, digest in elsewhere.stderr) == (0, True)
    assert [finding.check for finding in examine(tmp_path / "new")] == ["attached_file"]


@pytest.mark.parametrize("value", [5, ["a"], [FILE, {**FILE, "sha256": 1}], FILE])
def test_attachments_that_are_none_are_refused_with_their_line(value: object) -> None:
    header = json.dumps({"timothy_export": 1, "session": {"title": None}})
    payload = {"text": "look", "attachments": value}
    row = {"kind": "user_message", "turn_id": None, "payload": payload, "created_at": ""}
    with pytest.raises(BadRequest, match="line 2: `attachments` is no list"):
        parse([header, json.dumps(row)])


def test_a_file_that_is_no_text_is_named(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"\xff\xfe")
    ran = CliRunner().invoke(main, ["import", str(file), "--home", str(home)])
    assert (ran.exit_code, "session.jsonl is no text in UTF-8" in ran.stderr) == (1, True), ran.output


def test_a_session_that_is_not_there_is_named(home: Path) -> None:
    ran = CliRunner().invoke(main, ["export", "nobody", "--home", str(home)])
    assert (ran.exit_code, "no session nobody" in ran.stderr) == (1, True)


def test_an_export_is_one_json_object_a_line(home: Path) -> None:
    rows = [
        json.loads(line) for line in run("export", SESSION, "--format", "jsonl", "--home", home).splitlines()
    ]
    assert [row.get("kind") for row in rows] == [
        None,
        "session_started",
        "title_set",
        "user_message",
        "tool_execution",
        "assistant_turn",
    ]
