"""What makes a shell command dangerous, judged from its text alone, and rather once too often."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

MAX_LENGTH = 4_000
_DEPTH = 4


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


DANGEROUS = _set(
    "sudo doas su pkexec dd shred wipefs fdisk sfdisk cfdisk parted mkswap shutdown reboot halt poweroff"
    " killall pkill mount umount chroot nsenter unshare insmod modprobe rmmod iptables nft systemctl crontab"
    " useradd userdel usermod passwd visudo eval docker podman nc ncat socat telnet truncate"
)
_INTERPRETERS = re.compile(
    r"(ba|z|da|k|c|tc|fi)?sh|(python|pypy|perl|php|lua)[\d.]*|ruby|node|nodejs|deno|bun|tclsh|pwsh"
)
_WRAPPERS = _set("env nice nohup time timeout command builtin exec xargs stdbuf setsid ionice busybox")
_RESERVED = _set("{ } ! if then else elif fi do done while until for case esac in")
_HARMLESS_DEVICES = _set("/dev/null /dev/stdin /dev/stdout /dev/stderr /dev/tty /dev/zero /dev/urandom")
_STEERING = re.compile(
    r"(PATH|IFS|PS4|ENV|BASH_ENV|PAGER|EDITOR|PYTHON\w+|NODE_OPTIONS|PERL5\w+|RUBYOPT|LD_\w+|DYLD_\w+|GIT_\w+|\w*COMMAND)="
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")

_TEXTS = (
    (
        re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"),
        "holds characters that do not show",
    ),
    (re.compile(r"\(\s*\)\s*\{|\bfunction\s+\S+"), "defines a function, which is how a fork bomb is made"),
    (re.compile(r"\bwhile\s+(true|:|1)\b|\bwhile\s*:|for\s*\(\(\s*;\s*;"), "loops without an end"),
    (re.compile(r"\$'|\$\{?IFS|\$\{!|\$\{\w+(:|//?|#|%)"), "hides words behind the shell's expansions"),
    (re.compile(r"/dev/(tcp|udp)/"), "opens a network connection"),
    (
        re.compile(r"(^|[;&|\s])(\.|source|\w*sh|python[\d.]*|perl|node|ruby)\s+<\("),
        "runs what another prints",
    ),
    (re.compile(r"(^|[;&|(\n])\s*`"), "hides which program it runs"),
    (re.compile(r"\bsystem\s*\("), "starts a command from inside another language"),
)


def hazard(command: str) -> str | None:
    """Why `command` (text for a POSIX shell) must always be asked about; None when a grant is enough."""
    if len(command) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters, too long to oversee"
    return next(_hazards(command, 0), None)


def heads(command: str) -> list[str] | None:
    """The first word of each of the command's parts, in order; None when it is more than a few plain words.

    What is plain has no expansion, substitution, assignment or redirection: its first words say what runs.
    """
    if len(command) > MAX_LENGTH or re.search(r"[$`<>(){}\\\n*?\[]|^\s*\w+=|[;&|]\s*\w+=", command):
        return None
    parts = _parts(command)
    return [part[0] for _, part in parts] if parts else None


def _hazards(command: str, depth: int) -> Iterator[str]:
    for pattern, reason in _TEXTS:
        if pattern.search(command):
            yield reason
    parts = _parts(command)
    if parts is None:
        yield "has quotes that do not close"
        return
    for before, words in parts:
        yield from _of_part(before, words)
        for word in words:
            if re.search(r"[\s`]|\$\(", word):  # quoted text may be a command for an inner shell
                yield from _hazards(word, depth + 1) if depth < _DEPTH else iter(("is nested too deeply",))


def _parts(command: str) -> list[tuple[str, list[str]]] | None:
    """The simple commands, each with the operator before it; None when the text cannot be read."""
    lexer = shlex.shlex(
        command.replace("`", " ; ").replace("\n", " ; "), posix=True, punctuation_chars="();|&"
    )
    lexer.whitespace_split = True
    lexer.commenters = ""
    parts: list[tuple[str, list[str]]] = []
    before, words = "", list[str]()
    try:
        for token in lexer:
            if token and set(token) <= set("();|&"):
                parts.append((before, words))
                before, words = token, []
            else:
                words.append(token)
    except ValueError:
        return None
    parts.append((before, words))
    return [part for part in parts if part[1]]


def _of_part(before: str, words: list[str]) -> Iterator[str]:
    names = [PurePosixPath(word).name for word in words]
    head = _head(words)
    yield from (f"uses {name}" for name in names if name in DANGEROUS or name.startswith("mkfs"))
    yield from (
        f"sets {word.partition('=')[0]}, which steers other programs"
        for word in words
        if _STEERING.match(word)
    )
    yield from _of_devices(words)
    yield from _of_head(before, head, names)
    for rule in RULES:
        yield from rule(names, words)


def _head(words: list[str]) -> str:
    """The word that names the program, past assignments, reserved words, wrappers and their options."""
    wrapped = False
    for word in words:
        name = PurePosixPath(word).name
        if word in _RESERVED or _ASSIGNMENT.match(word):
            continue
        if name in _WRAPPERS:
            wrapped = True
        elif not (wrapped and re.match(r"-|[\d.]+[smhd]?$", word)):
            return word
    return ""


def _of_head(before: str, head: str, names: list[str]) -> Iterator[str]:
    name = PurePosixPath(head).name
    if re.search(r"[$*?\[]|\{.*,", head):
        yield "hides which program it runs"
    if not _INTERPRETERS.fullmatch(name):
        return
    if before in ("|", "|&"):
        yield f"runs what it is given, in {name}"
    if any(
        re.match(r"-\w*[cer]$|--?(eval|exec|print|command)", word) or word.startswith("<(") for word in names
    ):
        yield f"runs a text as a program, in {name}"


def _of_devices(words: list[str]) -> Iterator[str]:
    for word in words:
        for device in re.findall(r"/dev/[\w/.-]*", word):
            if device not in _HARMLESS_DEVICES or words[0].endswith(("mv", "rm")):
                yield f"touches the device {device}"


def _flags(words: list[str]) -> str:
    return "".join(word[1:] for word in words if re.match(r"-[A-Za-z0-9]", word))


def _of_rm(names: list[str], words: list[str]) -> Iterator[str]:
    if "rm" not in names and "rmdir" not in names and "unlink" not in names:
        return
    long = ("--recursive", "--force", "--no-preserve-root")
    if set(_flags(words)) & set("rRf") or any(word.startswith(long) for word in words) or "xargs" in names:
        yield "deletes whole folders, or without a question"
    if any(re.search(r"[*?$~]|^/", word) for word in words[1:]):
        yield "deletes by a pattern, or outside the workspace"


def _of_modes(names: list[str], words: list[str]) -> Iterator[str]:
    if not {"chmod", "chown", "chgrp"} & set(names):
        return
    if "R" in _flags(words) or "--recursive" in words:
        yield "changes the owner or the rights of a whole folder"
    if any(re.fullmatch(r"[0-7]*777|[2-7][0-7]{3}|[ugoa]*[+=][rwx]*s[rwx]*", word) for word in words):
        yield "gives rights to everyone, or another user's rights"


def _of_git(names: list[str], words: list[str]) -> Iterator[str]:
    if "git" not in names:
        return
    given = set(words)
    flags = _flags(words)
    if "push" in given and (
        "f" in flags or any(re.match(r"\+|--force|--delete|--mirror|--prune|:", word) for word in words)
    ):
        yield "overwrites or deletes history that others have"
    if {"reset", "--hard"} <= given or ("clean" in given and "f" in flags) or {"checkout", "."} <= given:
        yield "throws away work that is not committed"
    if {"branch", "-D"} <= given or given & {"filter-branch", "filter-repo", "restore", "config", "-c"}:
        yield "rewrites history, throws work away, or steers what git runs"


def _of_find(names: list[str], words: list[str]) -> Iterator[str]:
    if "find" in names and set(words) & {"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint"}:
        yield "runs or deletes something for every file found"


RULES = (_of_rm, _of_modes, _of_git, _of_find)
"""What single programs can do to harm: each rule takes a command's words, without and with their folders."""
