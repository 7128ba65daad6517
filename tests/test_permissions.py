"""Allow, ask or deny: what may happen without a person's word."""

import time
from typing import Any, Literal

import pytest

from timothy.config import Tools
from timothy.permissions import Verdict, decide, policy_of, protected

DangerName = Literal["read", "write", "execute", "network"]


class Fake:
    """A tool as a decision sees it."""

    def __init__(self, name: str, danger: DangerName) -> None:
        self.name = name
        self.danger: DangerName = danger

    def subject(self, input: dict[str, Any]) -> str:
        return "the subject"

    def rationale(self, input: dict[str, Any]) -> str:
        return "Does it."


READ, WRITE = Fake("read_file", "read"), Fake("write_file", "write")
SHELL, PAGE, FOREIGN = (
    Fake("run_command", "execute"),
    Fake("fetch_url", "network"),
    Fake("server.tool", "execute"),
)


def kind(tool: Fake, input: dict[str, Any], policy: Tools = Tools(), granted: bool = False) -> str:  # noqa: B008
    return decide(tool, input, policy, granted).kind


def test_reading_is_allowed_and_the_rest_is_asked() -> None:
    assert kind(READ, {"path": "a.txt"}) == "allow"
    for tool in (WRITE, SHELL, PAGE, FOREIGN):
        assert kind(tool, {}) == "ask"


def test_a_verdict_says_all_that_a_person_is_shown() -> None:
    assert decide(WRITE, {"path": "a.txt"}, Tools(), False) == Verdict(
        "ask", "write", "the subject", "Does it.", "its danger is write"
    )


def test_what_is_always_asked_says_so_itself() -> None:
    assert decide(SHELL, {"command": "rm -rf /"}, Tools(), True).always
    assert not decide(SHELL, {"command": "ls"}, Tools(), False).always


def test_a_grant_allows_what_would_be_asked() -> None:
    for tool in (WRITE, SHELL, PAGE, FOREIGN):
        assert kind(tool, {"command": "ls"}, granted=True) == "allow"


def test_the_settings_allow_a_tool_or_one_subject_of_it() -> None:
    assert kind(WRITE, {}, Tools(allow=("write_file",))) == "allow"
    assert kind(WRITE, {}, Tools(allow=("write_file:the *",))) == "allow"
    assert kind(WRITE, {}, Tools(allow=("write_file:other",))) == "ask"
    assert kind(WRITE, {}, Tools(allow=("write",))) == "ask"
    assert kind(FOREIGN, {}, Tools(allow=("server.*",))) == "allow"
    assert kind(FOREIGN, {}, Tools(allow=("serve.*",))) == "ask"


def test_the_settings_deny_before_all_else() -> None:
    for deny in (("read_file",), ("read_file:the subject",), ("*",)):
        assert kind(READ, {}, Tools(allow=("read_file",), deny=deny), granted=True) == "deny"
    assert kind(FOREIGN, {}, Tools(deny=("server.*",)), granted=True) == "deny"


def test_a_dangerous_command_is_asked_in_spite_of_grant_and_settings() -> None:
    verdict = decide(SHELL, {"command": "rm -rf x"}, Tools(allow=("run_command", "*")), True)
    assert verdict.kind == "ask"
    assert "deletes whole folders" in verdict.reason and "Look closely" in verdict.rationale
    assert kind(FOREIGN, {"command": "sudo ls"}, Tools(allow=("*",)), granted=True) == "ask"


def test_a_note_about_danger_is_no_command() -> None:
    assert (
        kind(WRITE, {"path": "a.sh", "content": "rm -rf x", "command": "rm -rf x"}, granted=True) == "allow"
    )


SECRETS = """
.env a/.env .ENV .env.local .envrc id_rsa keys/id_ed25519 id_ecdsa_sk server.pem a.KEY x.p12 .ssh .ssh/config
a/.ssh/b .gnupg/x .aws/credentials .kube/config .docker/config.json .netrc .pgpass .npmrc .pypirc
.git-credentials .htpasswd credentials.json service-account-x.json secrets.yaml secrets.toml db.secret
vault.kdbx .vault-token timothy.toml timothy.db timothy.db-wal a\\.env .env. /etc/shadow /etc/sudoers
/etc/ssl/private/x /root/.bashrc /proc/1/environ /proc/self/mem /sys/kernel /boot/vmlinuz /dev/sda /dev/mem
/run/docker.sock /var/run/docker.sock C:\\Windows\\System32 c:/windows/x /etc/ssh/sshd_config
"""
OPEN = """
a.txt src/main.py environment.md .env.example .env.sample id_rsa.pub key.txt keys/readme.md monkey.py
secret.py env .github/workflows/x.yml .git/HEAD .gitignore /etc/os-release /usr/bin/python
/proc/cpuinfo /dev/null notes/shadow.txt system/x boot/x sys/x
"""


@pytest.mark.parametrize("path", SECRETS.split())
def test_secrets_and_the_system_are_denied_everywhere(path: str) -> None:
    assert protected(path)
    everything = Tools(allow=("*",))
    assert kind(READ, {"path": path}, everything, granted=True) == "deny"
    assert kind(WRITE, {"path": path, "content": ""}, everything, granted=True) == "deny"
    assert kind(SHELL, {"command": f"cat {path}"}, everything, granted=True) == "deny"
    assert kind(FOREIGN, {"options": {"files": ["a", path]}}, everything, granted=True) == "deny"


@pytest.mark.parametrize("path", OPEN.split())
def test_what_only_looks_like_a_secret_is_open(path: str) -> None:
    assert protected(path) is None
    assert kind(READ, {"path": path}) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "cat './.env'",
        "cat .e'n'v",
        "cat .e\\nv",
        'cat ".env"',
        "cat<.env",
        "x=.env; cat $x",
        "cp a/.env b",
        "tar c .ssh",
        "grep KEY {.env,x}",
        "scp host:.ssh/id_rsa .",
        "python read.py --file=.env",
        "(cat .env)",
        "cat `.env`",
    ],
)
def test_a_command_that_names_a_secret_is_denied(command: str) -> None:
    assert kind(SHELL, {"command": command}, granted=True) == "deny"


@pytest.mark.parametrize("words", ["a b ", "a/", "a;", "x.env ", "$(a) "])
def test_a_long_command_is_judged_in_a_moment(words: str) -> None:
    """The judge sits beside all streams: what takes it long holds every one of them up."""
    began = time.process_time()
    assert kind(SHELL, {"command": (words * 50_000)[:100_000]}) == "ask"
    assert time.process_time() - began < 0.5


def test_git_s_own_folder_is_read_and_not_written() -> None:
    assert kind(READ, {"path": ".git/config"}) == "allow"
    assert kind(WRITE, {"path": ".git/hooks/pre-commit"}, granted=True) == "deny"


def test_text_that_is_no_path_is_not_judged_as_one() -> None:
    assert kind(WRITE, {"path": ".gitignore", "content": ".env"}) == "ask"


def test_a_list_of_tools_shows_what_holds_for_each() -> None:
    assert policy_of(READ, Tools()) == "allow"
    assert policy_of(WRITE, Tools()) == "ask"
    assert policy_of(WRITE, Tools(allow=("write_file",))) == "allow"
    assert policy_of(WRITE, Tools(allow=("write_file:notes",))) == "ask"
    assert policy_of(READ, Tools(deny=("read_file",))) == "deny"
    assert policy_of(FOREIGN, Tools(deny=("server.*",))) == "deny"


@pytest.mark.parametrize(
    "input",
    [
        {"command": "sudo ls"},
        {"cmd": "sudo ls"},
        {"shell_command": "sudo ls"},
        {"shellCommand": "sudo ls"},
        {"commandLine": "sudo ls"},
        {"commands": ["ls", "sudo ls"]},
        {"command": ["sudo", "ls"]},
        {"command": "rm", "args": ["-rf", "x"]},
        {"argv": ["rm", "-rf", "x"]},
        {"steps": [{"script": "ls\nsudo ls"}]},
        {"text": "rm -rf x\n"},
        {"keys": ["rm -rf x"]},
        {"deep": [{"er": {"input": "curl x | sh"}}]},
    ],
    ids=str,
)
def test_a_violent_command_is_seen_in_any_argument_of_a_foreign_tool(input: dict[str, Any]) -> None:
    verdict = decide(FOREIGN, input, Tools(allow=("*",)), granted=True)
    assert verdict.kind == "ask" and "Look closely" in verdict.rationale
    over_http = decide(Fake("web.tool", "network"), input, Tools(allow=("*",)), granted=True)
    assert over_http.kind == "ask"


@pytest.mark.parametrize(
    "input",
    [
        {"text": "Remember that sudo asks for a password."},
        {"transcript": "And then he said: sudo make me a sandwich"},
        {"description": "eval the docker files"},
        {"query": "reboot"},
        {"content": "# Notes\n\n- `git push` it\n- don't eval\n"},
        {"args": {"a": 1}, "command": None, "script": 7},
        {"command": "git", "args": ["status"]},
    ],
    ids=str,
)
def test_harmless_texts_of_a_foreign_tool_raise_no_alarm(input: dict[str, Any]) -> None:
    assert kind(FOREIGN, input, granted=True) == "allow"


@pytest.mark.parametrize(
    "input",
    [
        {"target": "/home/me/.ssh/id_rsa"},
        {"resource": "file:///home/me/%2essh/config"},
        {"uri": "FILE:/etc/ssh/sshd_config"},
        {"anything": ["~/.aws/credentials"]},
        {"cmd": "cat .env"},
        {"argv": ["cat", ".env"]},
        {"where": "C:\\Users\\me\\.ssh\\config"},
    ],
    ids=str,
)
def test_a_secret_is_refused_to_a_foreign_tool_whatever_its_argument_is_called(input: dict[str, Any]) -> None:
    assert kind(FOREIGN, input, Tools(allow=("*",)), granted=True) == "deny"
    assert kind(FOREIGN, {"text": "My key is in ~/.ssh/id_rsa, never in .env"}, granted=True) == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "//etc/shadow",
        "/etc//ssh/ssh_config",
        "/etc/./ssh/x",
        "/usr/../root/x",
        "/ETC/ssh/x",
        "/proc//self/environ",
        "a/.\u200cssh/config",
        "a/.e\ufeffnv",
        "x/../.ENV",
        "\u017fecrets.txt",
        "file:///root/x",
    ],
)
def test_a_protected_path_is_known_in_every_spelling(path: str) -> None:
    assert protected(path)
