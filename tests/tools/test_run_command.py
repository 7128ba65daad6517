"""The shell: alone with the workspace where there is a sandbox, and honest where there is none."""

import shutil
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.tools.conftest import Site
from tests.tools.waiting import processes
from timothy.cancel import Cancel
from timothy.tools import run_command, sandbox
from timothy.tools.base import Context, Tool, ToolError, check
from timothy.tools.process import Limits


@pytest.fixture
def sandboxed() -> None:
    """Only where the system has a sandbox."""
    if shutil.which("bwrap") is None:
        missing("bubblewrap is not installed")
    if sandbox.state() != "there":
        pytest.skip("bubblewrap is installed, and this system does not allow it to work")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system without a sandbox."""
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *more: None if name == "bwrap" else which(name, *more))
    monkeypatch.setattr(sandbox, "_watch", sandbox.Watch())
    assert sandbox.state() == "none"
    yield


def run(tool: Tool, context: Context, command: str, **more: object) -> str:
    return tool.run({"command": command, **more}, context, Cancel())


@pytest.fixture(params=["sandboxed", "bare"])
def shell(request: pytest.FixtureRequest, tools: dict[str, Tool]) -> Tool:
    request.getfixturevalue(request.param)
    return tools["run_command"]


def test_output_and_status_are_given(shell: Tool, context: Context) -> None:
    assert run(shell, context, "echo hello; exit 3").startswith("hello\n[exit status 3]")
    assert run(shell, context, "printf x").startswith("x\n[exit status 0]")
    assert run(shell, context, "true").startswith("[exit status 0]")
    assert "not found" in run(shell, context, "no-such-program")


def test_a_command_changes_the_workspace(shell: Tool, context: Context) -> None:
    (context.workspace / "a").mkdir()
    run(shell, context, "echo made > made.txt; pwd > where.txt", folder="a")
    assert (context.workspace / "a" / "made.txt").read_text() == "made\n"
    assert (context.workspace / "a" / "where.txt").read_text().strip().endswith("workspace/a")


def test_a_command_has_no_input_and_ends_in_time(shell: Tool, context: Context) -> None:
    assert run(shell, context, "cat").startswith("[exit status 0]")
    mark = uuid.uuid4().hex
    assert run(
        shell, context, f"(setsid sh -c 'sleep 60; :' {mark} &); sh -c 'sleep 60; :' {mark}", time_s=0.3
    ).startswith("[killed after 0.3 s]")
    assert processes(mark) == []


def test_the_server_s_secrets_are_not_there(
    shell: Tool, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMOTHY_API_TOKEN", "SECRET")
    assert "SECRET" not in run(shell, context, "env")
    with pytest.raises(ToolError, match="NUL"):
        run(shell, context, "echo \0")


def test_a_sandboxed_command_sees_nothing_of_the_home(
    sandboxed: None, context: Context, tools: dict[str, Tool]
) -> None:
    (context.home / "secret.txt").write_text("SECRET")
    said = run(
        tools["run_command"],
        context,
        f"cat {context.home}/secret.txt; cat ../secret.txt; ls -a ..; ls {Path.home()};"
        " touch /usr/x /etc/x; echo x > /x",
    )
    assert "SECRET" not in said and "secret.txt\n" not in said.replace("No such file or directory", "")
    assert said.count("No such file") == 3 and said.count("Read-only file system") >= 1
    assert not Path("/usr/x").exists() and not Path("/x").exists()


def test_a_sandboxed_command_keeps_nothing_in_memory_but_its_scratch(
    sandboxed: None, context: Context, tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_SCRATCH_BYTES", 1_000_000)
    (context.workspace / ".ssh").mkdir()
    for place in ("/x", "/etc/x", "/dev/x", "/workspace/.ssh/x"):
        assert "Read-only file system" in run(tools["run_command"], context, f"echo x > {place}")
    for place in ("/tmp/x", "/dev/shm/x"):
        said = run(tools["run_command"], context, f"head -c 2000000 /dev/zero > {place}; wc -c < {place}")
        assert "No space left" in said and "\n1003520\n" in said
    assert "fine" in run(tools["run_command"], context, "echo fine > /dev/stdout; echo > /dev/null")


def test_a_sandboxed_command_has_no_network(
    sandboxed: None, context: Context, tools: dict[str, Tool], site: Site
) -> None:
    client = f"import socket; socket.create_connection(('127.0.0.1', {site.port}), 2)"
    assert "refused" in run(tools["run_command"], context, f'python3 -c "{client}"')
    assert site.asked == []


def test_secrets_in_the_workspace_are_hidden_from_a_sandboxed_command(
    sandboxed: None, context: Context, tools: dict[str, Tool]
) -> None:
    (context.workspace / "a" / ".ssh").mkdir(parents=True)
    (context.workspace / "a" / ".ssh" / "config").write_text("SECRET")
    (context.workspace / "a" / ".env").write_text("SECRET")
    (context.workspace / ".env").symlink_to("a/.env")
    (context.workspace / "open.txt").write_text("open")
    said = run(tools["run_command"], context, "cat .e?? a/.e?? a/.s??/* *.txt; grep -rs SECRET . ; true")
    assert "SECRET" not in said.replace("grep -rs SECRET", "") and "open" in said


def test_too_many_secrets_to_hide_are_a_refusal(
    sandboxed: None, context: Context, tools: dict[str, Tool]
) -> None:
    for number in range(sandbox.MAX_MASKED + 1):
        (context.workspace / f"{number}.pem").touch()
    with pytest.raises(ToolError, match="too many to hide"):
        run(tools["run_command"], context, "ls")


def test_a_sandboxed_command_cannot_see_or_kill_other_processes(
    sandboxed: None, context: Context, tools: dict[str, Tool]
) -> None:
    said = run(tools["run_command"], context, "ls /proc | grep -c '^[0-9]'; kill -9 -1; echo unharmed")
    assert int(said.split("\n")[0]) < 8


def test_a_command_that_starts_ever_more_is_ended(
    shell: Tool, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setattr(run_command, "Limits", partial(Limits, processes=40))
    more = f"if [ $1 -gt 0 ]; then sh ./more $(($1-1)) {mark} & sh ./more $(($1-1)) {mark} & fi; sleep 60"
    (context.workspace / "more").write_text(more)  # doubles five times, and no more
    said = run(shell, context, f"sh ./more 5 {mark}")
    assert "[killed: it ran more than 40 processes at a time]" in said
    assert processes(mark) == []


def test_without_a_sandbox_everyone_is_told(bare: None, context: Context, tools: dict[str, Tool]) -> None:
    tool = tools["run_command"]
    assert "no sandbox" in tool.description
    assert "without a sandbox" in tool.rationale({"command": "ls"})
    assert run(tool, context, "true").endswith("[ran without a sandbox]")


def test_with_a_sandbox_everyone_is_told(sandboxed: None, context: Context, tools: dict[str, Tool]) -> None:
    tool = tools["run_command"]
    assert "in a sandbox" in tool.description and "no sandbox" not in tool.description
    assert tool.rationale({"command": "ls"}).endswith("in the sandbox.")
    assert run(tool, context, "true") == "[exit status 0]"


def test_a_sandbox_that_comes_is_used_and_one_that_goes_is_missed(
    sandboxed: None, context: Context, tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, installed = tools["run_command"], False
    which = shutil.which
    monkeypatch.setattr(sandbox, "LOOK_S", 0.0)
    monkeypatch.setattr(sandbox, "_watch", sandbox.Watch())
    monkeypatch.setattr(
        shutil, "which", lambda name, *more: which(name, *more) if installed or name != "bwrap" else None
    )
    assert "no sandbox" in tool.description and run(tool, context, "true").endswith("[ran without a sandbox]")
    installed = True
    assert "in a sandbox" in tool.description and run(tool, context, "true") == "[exit status 0]"
    installed = False
    assert "no command runs" in tool.description and "but not now" in tool.rationale({"command": "true"})
    with pytest.raises(ToolError, match="sandbox is gone"):
        run(tool, context, "touch x")
    assert not (context.workspace / "x").exists()
    installed = True
    assert run(tool, context, "true") == "[exit status 0]"


@pytest.mark.parametrize(
    ("input", "subject"),
    [
        ({"command": "git status"}, "git in ."),
        ({"command": "git status", "folder": "a"}, "git in a"),
        ({"command": " ls | sort | ls "}, "ls, sort in ."),
        ({"command": "echo $(date)"}, "echo $(date) in ."),
        ({"command": "git log; echo > x"}, "git log; echo > x in ."),
    ],
)
def test_a_grant_covers_the_first_words_of_a_plain_command_only(
    input: dict[str, str], subject: str, tools: dict[str, Tool]
) -> None:
    assert tools["run_command"].subject(input) == subject


def test_output_that_is_no_text_is_not_told_whole(
    bare: None, context: Context, tools: dict[str, Tool]
) -> None:
    said = run(tools["run_command"], context, "head -c 100000 /dev/urandom")
    assert "no text: 100000 bytes in all" in said and "[exit status 0]" in said and len(said) < 1_000
    assert run(tools["run_command"], context, r"printf 'a long line \377 of text'").startswith(
        "a long line \ufffd of text\n[exit"
    )


@pytest.mark.parametrize(
    "input", [{"command": "ls", "folder": ".."}, {"command": "ls", "folder": "/"}, {"command": "l\0s"}]
)
def test_nobody_is_asked_about_what_is_refused_anyway(input: dict[str, str], tools: dict[str, Tool]) -> None:
    assert check(tools["run_command"], input)


def test_a_command_s_violent_end_is_named(bare: None, context: Context, tools: dict[str, Tool]) -> None:
    assert run(tools["run_command"], context, "kill -9 $$").startswith("[killed by signal 9]")
    said = run(tools["run_command"], context, "yes")
    assert "bytes ..." in said and "[killed: it printed more than 67108864 bytes]" in said
