"""Nothing of a command outlives its call, its limits, or the server."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from tests.tools.waiting import processes, until
from timothy.cancel import Cancel
from timothy.tools.base import ToolError
from timothy.tools.process import Limits, Supervised, ask_child, environment, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def mark() -> str:
    """A word that stands in the command lines of this test's processes only."""
    return f"mark-{uuid.uuid4().hex}"


def sleeper(mark: str) -> str:
    """A shell's word for a process that sleeps for a minute with `mark` in its command line."""
    return f"{sys.executable} -c 'import time; time.sleep(60)' {mark}"


def test_output_and_exit_status_are_reported(tmp_path: Path) -> None:
    outcome = run(["sh", "-c", "echo out; echo err >&2; exit 3"], Cancel(), root=tmp_path)
    assert (outcome.reason, outcome.exit, outcome.text, outcome.cut) == ("exit", 3, "out\nerr\n", 0)


def test_a_signal_is_an_exit_below_zero(tmp_path: Path) -> None:
    assert run(["sh", "-c", "kill -SEGV $$"], Cancel(), root=tmp_path).exit == -signal.SIGSEGV


def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    outcome = run(["no-such-program"], Cancel(), root=tmp_path)
    assert outcome.exit == 127 and "no-such-program" in outcome.text


def test_input_reaches_the_command(tmp_path: Path) -> None:
    assert run(["cat"], Cancel(), root=tmp_path, input=b"x" * 1_000_000).total == 1_000_000
    assert run(["cat"], Cancel(), root=tmp_path).total == 0


def test_a_command_runs_in_its_folder_and_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert run(["pwd"], Cancel(), root=tmp_path, folder="a/b").text == f"{tmp_path}/a/b\n"
    assert run(["pwd"], Cancel(), root=tmp_path, folder="link").exit == 127
    assert run(["pwd"], Cancel(), root=tmp_path, folder="a/..").exit == 127


def test_the_server_s_secrets_are_not_in_a_command_s_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMOTHY_API_TOKEN", "SECRET")
    assert "SECRET" not in run(["env"], Cancel(), root=tmp_path).text
    parent = run(["sh", "-c", "tr '\\0' ' ' < /proc/$PPID/environ"], Cancel(), root=tmp_path)
    assert parent.exit == 0 and "LANG=" in parent.text and "SECRET" not in parent.text
    assert environment(HOME="/x")["HOME"] == "/x"


def test_time_is_limited(tmp_path: Path, mark: str) -> None:
    began = time.monotonic()
    outcome = run(["sh", "-c", sleeper(mark)], Cancel(), root=tmp_path, limits=Limits(time_s=0.5))
    assert outcome.reason == "time" and time.monotonic() - began < 20
    assert processes(mark) == []


def test_memory_is_limited(tmp_path: Path) -> None:
    big = [sys.executable, "-c", "x = bytearray(400 * 1024 * 1024)"]
    assert run(big, Cancel(), root=tmp_path).exit == 0
    outcome = run(big, Cancel(), root=tmp_path, limits=Limits(memory=200 * 1024 * 1024))
    assert outcome.exit == 1 and "MemoryError" in outcome.text


def test_the_size_of_a_file_is_limited(tmp_path: Path) -> None:
    limits = Limits(file_bytes=10_000)
    run(["sh", "-c", "head -c 100000 /dev/zero > big"], Cancel(), root=tmp_path, limits=limits)
    assert (tmp_path / "big").stat().st_size == 10_000


def test_output_is_kept_at_both_ends(tmp_path: Path) -> None:
    outcome = run(["seq", "200000"], Cancel(), root=tmp_path, limits=Limits(kept_output=2_000))
    assert outcome.text.startswith("1\n2\n") and outcome.text.endswith("\n199999\n200000\n")
    assert f"... cut {outcome.total - 2_000} bytes ..." in outcome.text


def test_endless_output_is_ended(tmp_path: Path) -> None:
    outcome = run(["yes"], Cancel(), root=tmp_path, limits=Limits(most_output=1_000_000))
    assert outcome.reason == "output" and len(outcome.output) <= 512 * 1024


def test_the_number_of_processes_is_limited(tmp_path: Path, mark: str) -> None:
    sleep = f"sh -c 'sleep 60; :' {mark}"
    many = f"i=0; while [ $i -lt 30 ]; do i=$((i+1)); {sleep} & setsid {sleep} & done; wait"  # and no more
    outcome = run(["sh", "-c", many], Cancel(), root=tmp_path, limits=Limits(processes=40, time_s=40))
    assert outcome.reason == "processes"
    assert processes(mark) == []
    few = run(["sh", "-c", "for i in 1 2 3; do sleep 0.3 & done; wait"], Cancel(), root=tmp_path)
    assert few.reason == "exit"


def test_the_memory_of_all_processes_is_limited(tmp_path: Path) -> None:
    take = "import time; block = b'x' * 60_000_000; time.sleep(60)"
    both = f'{sys.executable} -c "{take}" & {sys.executable} -c "{take}" & wait'
    limits = Limits(whole_memory=100_000_000, time_s=40)
    assert run(["sh", "-c", both], Cancel(), root=tmp_path, limits=limits).reason == "memory"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell their limits otherwise")
def test_the_system_counts_a_user_s_processes_too(tmp_path: Path) -> None:
    said = run(["grep", "Max processes", "/proc/self/limits"], Cancel(), root=tmp_path).text.split()
    assert 4 * Limits().processes < int(said[2]) < 100_000


def test_what_a_command_leaves_behind_is_killed(tmp_path: Path, mark: str) -> None:
    escaping = f"setsid {sleeper(mark)} >/dev/null 2>&1 & (setsid setsid {sleeper(mark)} &) ; echo done"
    outcome = run(["sh", "-c", escaping], Cancel(), root=tmp_path)
    assert (outcome.reason, outcome.exit) == ("exit", 0) and outcome.text == "done\n"
    assert processes(mark) == []


def test_a_command_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    outcome = run(["sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 5"], Cancel(), root=tmp_path)
    assert (outcome.reason, outcome.exit) == ("exit", 5)


def test_a_cancel_kills_the_whole_tree(tmp_path: Path, mark: str) -> None:
    tree = f"trap '' TERM INT HUP; (setsid {sleeper(mark)} &); {sleeper(mark)} & {sleeper(mark)}"
    cancel = Cancel()
    failures: list[str] = []

    def call() -> None:
        try:
            run(["sh", "-c", tree], cancel, root=tmp_path)
        except ToolError as error:
            failures.append(str(error))

    worker = threading.Thread(target=call)
    worker.start()
    until(lambda: len(processes(mark)) >= 4)
    began = time.monotonic()
    cancel.cancel()
    worker.join()
    assert time.monotonic() - began < 20
    assert failures == ["cancelled"] and processes(mark) == []


def test_many_commands_run_side_by_side(tmp_path: Path) -> None:
    texts: list[str] = []
    workers = [
        threading.Thread(
            target=lambda number=number: texts.append(
                run(["echo", str(number)], Cancel(), root=tmp_path).text
            )
        )
        for number in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(texts) == [f"{number}\n" for number in range(8)]


SERVER = """
import sys
from pathlib import Path
from timothy.cancel import Cancel
from timothy.tools.process import run
run(["sh", "-c", sys.argv[1]], Cancel(), root=Path("/"))
"""


def test_a_command_dies_with_the_server(mark: str) -> None:
    tree = f"(setsid {sleeper(mark)} &); {sleeper(mark)}"
    server = subprocess.Popen([sys.executable, "-c", SERVER, tree], cwd=ROOT, start_new_session=True)
    until(lambda: len(processes("time.sleep(60)' " + mark)) + len(processes(f"time.sleep(60) {mark}")) >= 3)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    until(lambda: processes(mark) == [], seconds=5)


def test_a_command_dies_with_its_supervisor(tmp_path: Path, mark: str) -> None:
    command = Supervised(["sh", "-c", f"exec {sleeper(mark)}"], root=tmp_path)
    command.begin()
    [child] = until(lambda: processes(mark))
    stat = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(stat[1]), signal.SIGKILL)
    until(lambda: processes(mark) == [], seconds=5)
    assert command.report(Cancel(), 5) is None
    assert not command.running
    command.close()


def test_a_child_s_own_words_are_the_error() -> None:
    request = {
        "text": "(",
        "pattern": True,
        "exact_case": False,
        "root": "/",
        "folder": "",
        "names": "",
        "most": 1,
    }
    with pytest.raises(ToolError, match="no regular expression"):
        ask_child("search", request, Cancel(), Limits())


def test_a_child_that_breaks_is_named_with_its_last_words() -> None:
    with pytest.raises(ToolError, match=r"(?s)exit status 1.*KeyError"):
        ask_child("search", {}, Cancel(), Limits())


def test_a_child_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(ToolError, match=r"gave up after 0\.01 s"):
        ask_child("search", {}, Cancel(), Limits(time_s=0.01))


def test_text_that_utf8_cannot_hold_is_repaired_on_the_way() -> None:
    with pytest.raises(ToolError):
        ask_child("search", {"text": "\ud800"}, Cancel(), Limits())
