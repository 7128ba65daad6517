"""What in a text may be a violent command, where nobody knows whether anything runs the text."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath

from timothy.hazards import DANGEROUS, RULES

MAX_TEXT = 200_000
MAX_STARTS = 500
# Where a command would begin; each repetition is bounded, as the text may be long.
_START = re.compile(
    r"(?:^|[\n;&|`({])[ \t>$#%]{0,8}"
    r"((?:sudo|doas|rm|rmdir|chmod|chown|git|find|xargs|dd|mkfs\.?\w{0,9}|shutdown)[ \t][^\n;&|`]{0,400})"
)
_TELLING = (
    (re.compile(r":\s?\(\)\s?\{"), "is a fork bomb"),
    (
        re.compile(
            r"\b(curl|wget|base64|xxd|openssl|echo|printf|cat)\b[^\n|]{0,300}\|\s{0,9}(sudo )?"
            r"(/\w{1,9}){0,4}/?((ba|z|da|k)?sh|python[\d.]*|perl|ruby|node)(\s|;|$)"
        ),
        "runs what it is given",
    ),
    (re.compile(r"/dev/(tcp|udp)/"), "opens a network connection"),
    (re.compile(r"(>|\bof=)\s{0,3}/dev/(sd|hd|vd|nvme|mmcblk|disk|mem)"), "overwrites a device"),
)
_ADMINISTERED = """
    rm mv cp chmod chown tee bash sh apt apt-get dnf yum pacman pip npm kill ln sed vi nano service -i -s -u
"""
_RUN_WITH_EVERY_RIGHT = DANGEROUS | {*_ADMINISTERED.split()}


def hint(text: str) -> str | None:
    """Why `text`, of which nobody knows whether anything runs it, deserves a look; None for most texts.

    Seen is what stands where a command would begin (a line, after an operator, in backquotes) and could be
    nothing but a violent command: a mere word, as prose has it, is none.
    """
    if len(text) > MAX_TEXT:
        return f"holds a text longer than {MAX_TEXT} characters, too long to oversee"
    for pattern, reason in _TELLING:
        if pattern.search(text):
            return f"may be a command that {reason}"
    for number, found in enumerate(_START.finditer(text)):
        if number == MAX_STARTS:
            return "holds more that looks like commands than can be overseen"
        words = [word.strip("\"'") for word in found[1].split()]
        found_by_rules = (rule(words[:1], words) for rule in RULES)
        for reason in chain(_of_programs(words), *found_by_rules):
            return f"may be a command that {reason}"
    return None


def _of_programs(words: list[str]) -> Iterator[str]:
    """Programs that a prose's sentence seldom begins with, and that need little more to do harm."""
    head, given = words[0], words[1:]
    if head in ("sudo", "doas") and given and PurePosixPath(given[0]).name in _RUN_WITH_EVERY_RIGHT:
        yield f"runs {given[0]} with every right"
    if head == "dd" and any(re.match(r"(of|if)=", word) for word in given):
        yield "uses dd"
    if head.startswith("mkfs") and any(word.startswith("/") for word in given):
        yield "makes a file system"
    if head == "shutdown" and any(re.match(r"-\w|now|\+\d|\d\d:", word) for word in given):
        yield "ends the whole computer"
    if head == "xargs" and {"rm", "sh", "bash"} & set(given):
        yield "runs or deletes something for every line it is given"
