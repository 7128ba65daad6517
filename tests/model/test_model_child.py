"""The model's process: one for all, named in death, and never older than its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import urllib3

from timothy.errors import ProviderUnreachable
from timothy.model.child import Child, Run

DIES = (sys.executable, "-c", "import sys; print('no room', file=sys.stderr); sys.exit(3)")
LOADS_FOR_EVER = (sys.executable, "-c", "import time; time.sleep(600)")
PARENT = """
import sys, time
from pathlib import Path
from timothy.model.child import Child
run = Child(Path(sys.argv[1]), 512).run()
run.endpoint(60)
print(run.pid, flush=True)
time.sleep(600)
"""


def eventually(fact: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@pytest.fixture
def child(weights: Path) -> Iterator[Child]:
    with closing(Child(weights, 512)) as child:
        yield child


def test_a_process_that_dies_while_loading_is_named_with_its_last_words(tmp_path: Path) -> None:
    with closing(Child(tmp_path, 512, DIES)) as child:
        run = child.run()
        with pytest.raises(ProviderUnreachable, match=r"ended \(exit status 3\): no room"):
            run.endpoint(10)
        assert run.settled
        assert child.run() is not run


def test_a_file_that_is_no_model_fails_with_the_engines_words(tmp_path: Path, weights: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(weights.read_bytes()[:100_000])
    with (
        closing(Child(broken, 512)) as child,
        pytest.raises(ProviderUnreachable, match=r"exit status 1.*server"),
    ):
        child.run().endpoint(20)


def test_a_program_that_is_not_there_fails_by_name(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnreachable, match="could not be started"):
        Child(tmp_path, 512, ("/no/such/program",)).run()


def test_whoever_waits_no_longer_is_told_that_the_model_still_loads(tmp_path: Path) -> None:
    with closing(Child(tmp_path / "big.gguf", 512, LOADS_FOR_EVER)) as child:
        run = child.run()
        with pytest.raises(ProviderUnreachable, match=r"big\.gguf is still loading"):
            run.endpoint(0.01)
        assert child.run() is run


def test_a_close_ends_a_process_that_still_loads_and_all_who_wait_for_it(tmp_path: Path) -> None:
    child = Child(tmp_path, 512, LOADS_FOR_EVER)
    run = child.run()
    threading.Timer(0.05, child.close).start()
    with pytest.raises(ProviderUnreachable, match="signal 9"):
        run.endpoint(10)
    with pytest.raises(ProviderUnreachable, match="shuts down"):
        child.run()


def test_many_first_turns_start_one_process(child: Child) -> None:
    runs: list[Run] = []
    threads = [threading.Thread(target=lambda: runs.append(child.run())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 20
    assert len({run.pid for run in runs}) == 1


def test_a_killed_process_is_followed_by_another(child: Child) -> None:
    first = child.run()
    first.endpoint(20)
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not first.alive)
    second = child.run()
    assert second.pid != first.pid
    assert second.endpoint(20).base_url.startswith("http://127.0.0.1:")
    with pytest.raises(ProviderUnreachable, match="signal 9"):
        first.endpoint(10)


def test_the_model_answers_only_who_has_its_key(child: Child) -> None:
    endpoint = child.run().endpoint(20)
    question = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}

    def ask(key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"{endpoint.base_url}/chat/completions"
        return urllib3.request("POST", url, json=question, headers=headers, timeout=20, retries=False).status

    assert [ask(""), ask("guess"), ask(endpoint.key)] == [401, 401, 200]
    assert endpoint.tools is False


def test_the_key_is_not_in_the_process_list(child: Child) -> None:
    run = child.run()
    endpoint = run.endpoint(20)
    for listing in ("cmdline", "environ"):
        assert endpoint.key.encode() not in Path(f"/proc/{run.pid}/{listing}").read_bytes()


@pytest.mark.once
def test_the_process_ends_when_its_parent_is_killed(weights: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
    eventually(lambda: gone(pid))
