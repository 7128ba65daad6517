"""The home: one holder, and a token that only its owner can read."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from timothy import home as homes
from timothy.errors import ConfigError, HomeLocked

HOLDER = """
import sys, time, pathlib
from timothy import home
held = home.lock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_the_home_is_made_for_its_owner_alone(tmp_path):
    home = tmp_path / "deep" / "home"
    homes.prepare(home)
    homes.prepare(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/home cannot be made"):
        homes.prepare(tmp_path / "file" / "home")


def test_a_second_holder_is_told_who_holds_the_home(tmp_path):
    with homes.lock(tmp_path), pytest.raises(HomeLocked, match=f"process {os.getpid()}"):
        homes.lock(tmp_path)


def test_a_home_can_be_held_again_once_it_is_let_go(tmp_path):
    homes.lock(tmp_path).close()
    with homes.lock(tmp_path):
        assert (tmp_path / homes.LOCK_FILE).read_text() == f"{os.getpid()}\n"


def test_the_lock_dies_with_its_process_however_that_dies(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(HomeLocked, match=f"process {holder.pid}"):
            homes.lock(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    homes.lock(tmp_path).close()


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    token = homes.token(tmp_path, {})
    assert homes.token(tmp_path, {}) == token
    assert len(token) >= 32
    assert stat.S_IMODE((tmp_path / homes.TOKEN_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [homes.TOKEN_FILE]


def test_a_start_that_died_while_it_made_the_token_does_not_keep_the_next_from_it(tmp_path):
    (tmp_path / f"{homes.TOKEN_FILE}.{os.getpid()}.new").write_text(
        "half"
    )  # in a container the id is the same
    assert len(homes.token(tmp_path, {})) >= 32


def test_the_users_own_token_wins_and_is_not_written_down(tmp_path):
    environment = {homes.TOKEN_VARIABLE: "  mine "}
    assert homes.token(tmp_path, environment) == "mine"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "\n", "  \n"])
def test_an_empty_token_file_never_opens_the_door(tmp_path, content):
    (tmp_path / homes.TOKEN_FILE).write_text(content)
    assert len(homes.token(tmp_path, {})) >= 32


def test_a_token_file_that_others_could_read_is_closed_to_them(tmp_path):
    token = homes.token(tmp_path, {})
    (tmp_path / homes.TOKEN_FILE).chmod(0o644)
    assert homes.token(tmp_path, {}) == token
    assert stat.S_IMODE((tmp_path / homes.TOKEN_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("token", ["t\u00f6ken", "a b", "a\tb", "a\x7f"])
def test_a_token_that_no_header_can_carry_is_refused(tmp_path, token):
    with pytest.raises(ConfigError, match="visible ASCII"):
        homes.token(tmp_path, {homes.TOKEN_VARIABLE: token})
