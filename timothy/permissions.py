"""Allow, ask or deny: what a tool call may do without a person's word."""

import fnmatch
import re
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import msgspec

from timothy.config import Tools
from timothy.hazards import hazard

GRANT_S = 12 * 3600
"""How long an answer `session` lasts, in seconds."""

_PATH_KEYS = re.compile(
    r"(?i)(.*_)?(path|paths|folder|file|files|filename|dir|directory|source|destination|glob|uri)"
)
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
    r"/etc/(shadow|gshadow|sudoers|ssh|ssl/private)|/root\b|/boot\b|/sys\b|/proc/(?!cpuinfo|meminfo|loadavg|uptime|version)"
    r"|/dev/(sd|hd|vd|nvme|mmcblk|mem\b|kmem|disk|mapper|loop)|(/var)?/run/(docker|containerd|podman)"
    r"|(?i:[a-z]:[\\/]windows)"
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
    """A decision: `rationale` is for the person who is asked, `reason` says why it was decided so."""

    kind: Literal["allow", "ask", "deny"]
    danger: str
    subject: str
    rationale: str
    reason: str


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
    return Verdict(kind, tool.danger, subject, rationale, reason)


def policy_of(tool: Asks, policy: Tools) -> Literal["allow", "ask", "deny"]:
    """What holds for the tool as a whole, for a list of tools; a single call can be judged more strictly."""
    if any(entry in policy.deny for entry in _entries(tool.name)):
        return "deny"
    if tool.danger == "read" or any(entry in policy.allow for entry in _entries(tool.name)):
        return "allow"
    return "ask"


def protected(path: str, *, write: bool = False) -> str | None:
    """Why no tool may touch `path` (its text, either slash), or None: secrets, the system, what git runs."""
    if _SYSTEM.match(path):
        return f"{path} belongs to the system"
    for part in path.replace("\\", "/").casefold().split("/"):
        part = part.rstrip(". ")
        if _PUBLIC_NAME.match(part):
            continue
        if _SECRET_NAME.match(part):
            return f"{path} may hold secrets"
        if write and part == ".git":
            return f"{path} is git's own, and can make git run programs"
    return None


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


def _hazard(tool: Asks, input: dict[str, Any]) -> str | None:
    command = input.get("command")
    return hazard(command) if tool.danger == "execute" and isinstance(command, str) else None


def _refusals(tool: Asks, input: dict[str, Any]) -> Iterator[str]:
    for path in _paths(input):
        refusal = protected(path, write=tool.danger != "read")
        if refusal:
            yield refusal
    command = input.get("command")
    if tool.danger == "execute" and isinstance(command, str):
        unquoted = re.sub(r"[\\'\"]", "", command)  # so that .e'n'v is seen as the .env it is
        words = (*command.split(), *_WORD.findall(command), *_WORD.findall(unquoted))
        for word in dict.fromkeys(words):
            refusal = protected(word)
            if refusal:
                yield refusal


def _paths(value: Any, key: str = "") -> Iterator[str]:
    """Every text under a key that names a file or a folder, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, key)
    elif isinstance(value, str) and _PATH_KEYS.fullmatch(key):
        yield value
