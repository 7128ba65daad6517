"""Allow, ask or deny: what a tool call may do without a person's word."""

import fnmatch
import os.path
import re
import shlex
from collections.abc import Iterator
from typing import Any, Literal, Protocol
from urllib.parse import unquote

import msgspec

from timothy.config import Tools
from timothy.hazards import hazard
from timothy.hints import hint

GRANT_S = 12 * 3600
"""How long an answer `session` lasts, in seconds."""

_PATH_KEYS = re.compile(
    r"(?i)(.*_)?(path|paths|folder|file|files|filename|dir|directory|source|destination|glob|uri)"
)
# `run_command` and `runCommand`, and no transcript
_COMMAND_KEYS = re.compile(
    r"(.*[_.-]|.*(?=[A-Z]))?(?i:(command|cmd|shell|bash|script|exec(ute)?)s?([_-]?line)?)"
)
_ARGUMENT_KEYS = re.compile(r"(?i)(.*_)?(args|argv|arguments)")
_PATH_ALONE = re.compile(r"(?i)([/~\\]|\.{1,2}[/\\]|file:|[a-z]:[\\/])\S{1,4000}")
# what does not show; some file systems take a name for the same without it
_UNSEEN = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_SECRETS = """
    .env .env.* .envrc id_rsa* id_dsa* id_ecdsa* id_ed25519* *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx
    *.ppk .ssh .gnupg .aws .azure .kube .docker .gcloud .netrc _netrc .pgpass .my.cnf .npmrc .pypirc
    .git-credentials .htpasswd credentials.json service-account*.json secrets.* *.secret .vault-token
    .password-store shadow sudoers timothy.toml timothy.db timothy.db-*
"""
_PUBLIC = ".env.example .env.sample .env.template *.pub"


def _named(patterns: str) -> re.Pattern[str]:
    """One expression for all the patterns: a command may have ten thousand words."""
    return re.compile("|".join(map(fnmatch.translate, patterns.split())))


_SECRET_NAME, _PUBLIC_NAME = _named(_SECRETS), _named(_PUBLIC)
_SYSTEM = re.compile(
    r"(?i)/etc/(shadow|gshadow|sudoers|ssh|ssl/private)|/root\b|/boot\b|/sys\b|/proc/(?!cpuinfo|meminfo|loadavg|uptime|version)"
    r"|/dev/(sd|hd|vd|nvme|mmcblk|mem\b|kmem|disk|mapper|loop)|(/var)?/run/(docker|containerd|podman)"
    r"|[a-z]:[\\/]windows"
)
_WORD = re.compile(r"[^\s\"'`;|&<>()=,:{}$]+")


class Asks(Protocol):
    """What a decision needs to know of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def danger(self) -> Literal["read", "write", "execute", "network"]: ...
    def subject(self, input: dict[str, Any]) -> str: ...
    def rationale(self, input: dict[str, Any]) -> str: ...


class Verdict(msgspec.Struct, frozen=True):
    """A decision: `rationale` is for the person who is asked, `reason` says why it was decided so.

    `always`: no remembered answer makes this call one that need not be asked for.
    """

    kind: Literal["allow", "ask", "deny"]
    danger: str
    subject: str
    rationale: str
    reason: str
    always: bool = False


def decide(tool: Asks, input: dict[str, Any], policy: Tools, granted: bool) -> Verdict:
    """What happens to this call: `granted` says that a remembered answer covers its subject.

    In this order: what the settings or the nature of a file deny; what must always be asked; what the
    settings, a grant, or being read-only allow; the rest is asked. `input` fits the tool's schema.
    """
    subject = tool.subject(input)
    rationale = tool.rationale(input)
    danger = _hazard(tool, input)
    if danger:
        rationale = f"{rationale} Look closely: it {danger}."
    kind, reason = _rule(tool, input, policy, granted, subject, danger)
    return Verdict(kind, tool.danger, subject, rationale, reason, always=danger is not None)


def policy_of(tool: Asks, policy: Tools) -> Literal["allow", "ask", "deny"]:
    """What holds for the tool as a whole, for a list of tools; a single call can be judged more strictly."""
    if any(entry in policy.deny for entry in _entries(tool.name)):
        return "deny"
    if tool.danger == "read" or any(entry in policy.allow for entry in _entries(tool.name)):
        return "allow"
    return "ask"


def protected(path: str, *, write: bool = False) -> str | None:
    """Why no tool may touch `path` (its text, either slash), or None: secrets, the system, what git runs."""
    plain = _plain(path)
    if _SYSTEM.match(plain) or _SYSTEM.match(os.path.normpath(plain)):
        return f"{path} belongs to the system"
    for part in plain.casefold().split("/"):
        part = part.rstrip(". ")
        if _PUBLIC_NAME.match(part):
            continue
        if _SECRET_NAME.match(part):
            return f"{path} may hold secrets"
        if write and part == ".git":
            return f"{path} is git's own, and can make git run programs"
    return None


def _plain(path: str) -> str:
    """`path` with slashes of one kind, and without what hides which file it names."""
    if path[:5].casefold() == "file:":
        path = unquote(path[5:])
    return re.sub(r"//+", "/", _UNSEEN.sub("", path).replace("\\", "/"))


def _rule(
    tool: Asks, input: dict[str, Any], policy: Tools, granted: bool, subject: str, danger: str | None
) -> tuple[Literal["allow", "ask", "deny"], str]:
    if _listed(tool.name, subject, policy.deny):
        return "deny", "the settings deny it"
    refusal = next(_refusals(tool, input), None)
    if refusal:
        return "deny", refusal
    if danger:
        return "ask", f"it {danger}"
    if _listed(tool.name, subject, policy.allow):
        return "allow", "the settings allow it"
    if granted:
        return "allow", "allowed for this session"
    if tool.danger == "read":
        return "allow", "it only reads"
    return "ask", f"its danger is {tool.danger}"


def _entries(name: str) -> tuple[str, ...]:
    """The entries of a settings list that mean the whole tool: its name, or its server's `server.*`."""
    return (name, f"{name.partition('.')[0]}.*", "*") if "." in name else (name, "*")


def _listed(name: str, subject: str, entries: tuple[str, ...]) -> bool:
    """An entry is a tool's name, `server.*`, `*`, or `tool:SUBJECT` where SUBJECT may have `*`."""
    for entry in entries:
        tool, colon, pattern = entry.partition(":")
        if tool in _entries(name) and (not colon or fnmatch.fnmatchcase(subject, pattern)):
            return True
    return False


def _foreign(tool: Asks) -> bool:
    """Whether the tool is another server's: nobody here knows which of its arguments it runs."""
    return "." in tool.name


def _hazard(tool: Asks, input: dict[str, Any]) -> str | None:
    found = map(hazard, _commands(tool, input))
    hints = (hint(text) for _, text in _texts(input)) if _foreign(tool) else ()
    return next((reason for reason in (*found, *hints) if reason), None)


def _commands(tool: Asks, input: dict[str, Any]) -> Iterator[str]:
    """What the call would run, as far as its arguments' names tell."""
    if _foreign(tool):
        yield from _named_commands(input)
    elif tool.danger == "execute" and isinstance(input.get("command"), str):
        yield input["command"]


def _named_commands(value: Any) -> Iterator[str]:
    """Texts under a key that names a command, alone and with the arguments beside it, at any depth."""
    if isinstance(value, list):
        for inner in value:
            yield from _named_commands(inner)
    if not isinstance(value, dict):
        return
    given = [_joined(inner) for name, inner in value.items() if _ARGUMENT_KEYS.fullmatch(str(name))]
    for name, inner in value.items():
        if _COMMAND_KEYS.fullmatch(str(name)) and (command := _joined(inner)):
            yield " ".join([command, *filter(None, given)])
        else:
            yield from _named_commands(inner)
    yield from filter(None, given)


def _joined(value: Any) -> str:
    """A command in one text; empty when it is none."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return value if isinstance(value, str) else ""


def _refusals(tool: Asks, input: dict[str, Any]) -> Iterator[str]:
    for key, text in _texts(input):
        if _PATH_KEYS.fullmatch(key) or (_foreign(tool) and _PATH_ALONE.fullmatch(text)):
            refusal = protected(text, write=tool.danger != "read")
            if refusal:
                yield refusal
    for command in _commands(tool, input):
        unquoted = re.sub(r"[\\'\"]", "", command)  # so that .e'n'v is seen as the .env it is
        words = (*command.split(), *_WORD.findall(command), *_WORD.findall(unquoted))
        for word in dict.fromkeys(words):
            refusal = protected(word)
            if refusal:
                yield refusal


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text at any depth, after the key that it stands under."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str):
        yield key, value
