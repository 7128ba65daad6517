"""Files of the workspace: read, written, changed, listed and found."""

import os
import stat

import pytest

from timothy.cancel import Cancel
from timothy.tools.base import Context, Tool, ToolError


def run(tool: Tool, context: Context, **input: object) -> str:
    return tool.run(input, context, Cancel())


def test_what_is_written_is_read(context: Context, tools: dict[str, Tool]) -> None:
    assert (
        run(tools["write_file"], context, path="a/b/c.txt", content="häßlich\n")
        == "Made a/b/c.txt (10 bytes)."
    )
    assert run(tools["read_file"], context, path="a/b/c.txt") == "häßlich\n"
    assert run(tools["write_file"], context, path="./a//b/c.txt", content="").startswith("Replaced")
    assert run(tools["read_file"], context, path="a/b/c.txt") == ""


def test_a_replaced_file_keeps_its_rights(context: Context, tools: dict[str, Tool]) -> None:
    script = context.workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    run(tools["write_file"], context, path="run.sh", content="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_write_never_touches_another_name_of_the_same_file(
    context: Context, tools: dict[str, Tool]
) -> None:
    (context.home / "outside.txt").write_text("old")
    os.link(context.home / "outside.txt", context.workspace / "inside.txt")
    run(tools["write_file"], context, path="inside.txt", content="new")
    assert (context.home / "outside.txt").read_text() == "old"


def test_git_s_own_folder_can_be_read_and_not_written(context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / ".git").mkdir()
    (context.workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert run(tools["read_file"], context, path=".git/HEAD").startswith("ref")
    with pytest.raises(ToolError, match="git"):
        run(tools["write_file"], context, path=".git/hooks/pre-commit", content="#!/bin/sh")
    with pytest.raises(ToolError, match="git"):
        run(tools["edit_file"], context, path=".git/HEAD", old="main", new="other")


def test_a_part_of_a_file_says_that_it_is_a_part(context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / "long.txt").write_text("".join(f"{number}\n" for number in range(1, 3001)))
    assert run(tools["read_file"], context, path="long.txt").endswith("\n2000\n[lines 1 to 2000 of 3000]")
    assert (
        run(tools["read_file"], context, path="long.txt", first_line=2999)
        == "2999\n3000\n[lines 2999 to 3000 of 3000]"
    )
    assert (
        run(tools["read_file"], context, path="long.txt", first_line=7, lines=1)
        == "7\n[lines 7 to 7 of 3000]"
    )
    with pytest.raises(ToolError, match="3000 lines"):
        run(tools["read_file"], context, path="long.txt", first_line=3001)


def test_a_line_is_what_a_newline_ends(context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / "odd.txt").write_text("one\u2028still one\x0c\ntwo\n")
    assert run(tools["read_file"], context, path="odd.txt", first_line=2) == "two\n[lines 2 to 2 of 2]"


@pytest.mark.parametrize("name", ["read_file", "edit_file"])
def test_what_is_no_text_is_not_read_as_text(name: str, context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / "picture.png").write_bytes(b"\x89PNG\r\n\0\0\xff")
    more = {"old": "P", "new": "Q"} if name == "edit_file" else {}
    with pytest.raises(ToolError, match=r"no text|not UTF-8"):
        run(tools[name], context, path="picture.png", **more)


def test_a_file_in_another_encoding_is_read_but_not_damaged(context: Context, tools: dict[str, Tool]) -> None:
    latin = "häßlich".encode("latin-1")
    (context.workspace / "old.txt").write_bytes(latin)
    assert run(tools["read_file"], context, path="old.txt") == "h\ufffd\ufffdlich"
    with pytest.raises(ToolError, match="damage"):
        run(tools["edit_file"], context, path="old.txt", old="lich", new="LICH")
    assert (context.workspace / "old.txt").read_bytes() == latin


def test_an_edit_changes_one_passage(context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / "a.txt").write_text("one two two\n")
    assert run(tools["edit_file"], context, path="a.txt", old="one", new="1") == "Changed a.txt in 1 place."
    with pytest.raises(ToolError, match="there 2 times"):
        run(tools["edit_file"], context, path="a.txt", old="two", new="2")
    assert (
        run(tools["edit_file"], context, path="a.txt", old="two", new="2", every=True)
        == "Changed a.txt in 2 places."
    )
    with pytest.raises(ToolError, match="does not hold"):
        run(tools["edit_file"], context, path="a.txt", old="three", new="3")
    assert (context.workspace / "a.txt").read_text() == "1 2 2\n"


def test_an_edit_keeps_the_line_ends_of_a_file(context: Context, tools: dict[str, Tool]) -> None:
    (context.workspace / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    run(tools["edit_file"], context, path="dos.txt", old="one\ntwo", new="1\n2")
    assert (context.workspace / "dos.txt").read_bytes() == b"1\r\n2\r\n"


def test_a_text_that_utf8_cannot_hold_is_repaired(context: Context, tools: dict[str, Tool]) -> None:
    run(tools["write_file"], context, path="half.txt", content="half \ud83d")
    assert (context.workspace / "half.txt").read_text() == "half \ufffd"


def test_a_list_has_sizes_and_kinds(context: Context, tools: dict[str, Tool]) -> None:
    assert run(tools["list_files"], context) == "The folder is empty."
    (context.workspace / "b").mkdir()
    (context.workspace / "b" / "c.txt").write_text("123")
    (context.workspace / "a.txt").write_text("12")
    (context.workspace / "z").symlink_to("a.txt")
    assert run(tools["list_files"], context) == "a.txt  2\nb/\nz@"
    assert run(tools["list_files"], context, deep=True) == "a.txt  2\nb/\nb/c.txt  3\nz@"
    assert run(tools["list_files"], context, folder="./b/") == "b/c.txt  3"


def test_a_long_list_says_that_there_is_more(context: Context, tools: dict[str, Tool]) -> None:
    for number in range(1001):
        (context.workspace / f"{number:04}").touch()
    lines = run(tools["list_files"], context).split("\n")
    assert len(lines) == 1001 and lines[-1].startswith("... and more")


def test_a_search_finds_lines_by_text_pattern_case_name_and_folder(
    context: Context, tools: dict[str, Tool]
) -> None:
    for path, text in {
        "a.txt": "Tea\ncoffee\n",
        "b/c.md": "tea (green)\n",
        "node_modules/x.txt": "tea",
    }.items():
        (context.workspace / path).parent.mkdir(exist_ok=True)
        (context.workspace / path).write_text(text)
    search = tools["search_files"]
    assert run(search, context, text="tea") == "a.txt:1: Tea\nb/c.md:1: tea (green)"
    assert run(search, context, text="tea", exact_case=True) == "b/c.md:1: tea (green)"
    assert run(search, context, text="(green)") == "b/c.md:1: tea (green)"
    assert run(search, context, text="^t.a$", pattern=True) == "a.txt:1: Tea"
    assert run(search, context, text="tea", names="*.md") == "b/c.md:1: tea (green)"
    assert run(search, context, text="tea", folder="b") == "b/c.md:1: tea (green)"
    assert run(search, context, text="milk") == "Nothing found in 2 files."


def test_a_search_with_many_matches_says_that_there_are_more(
    context: Context, tools: dict[str, Tool]
) -> None:
    (context.workspace / "many.txt").write_text("tea\n" * 300 + "x" * 10_000 + "tea\n")
    lines = run(tools["search_files"], context, text="tea").split("\n")
    assert len(lines) == 201 and lines[-1].startswith("... and more")
    assert len(run(tools["search_files"], context, text="xtea")) < 400
