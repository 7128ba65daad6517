"""Searches the workspace's text files for a text or a pattern: a process, as a pattern can run away."""

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timothy.permissions import protected
from timothy.tools import files
from timothy.tools.base import ToolError
from timothy.tools.children import ChildError, answer

MAX_BYTES = 4_000_000
MAX_LINE = 300
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def search(request: dict[str, Any]) -> dict[str, Any]:
    """Lines `path:number: text`, at most `most`; `more`: there are others; `files`: how many were read."""
    try:
        pattern = re.compile(
            request["text"] if request["pattern"] else re.escape(request["text"]),
            0 if request["exact_case"] else re.IGNORECASE,
        )
        lines: list[str] = []
        count = 0
        for path, text in _texts(Path(request["root"]), request["folder"], request["names"]):
            count += 1
            for line in _matches(pattern, path, text):
                if len(lines) == request["most"]:
                    return {"lines": lines, "more": True, "files": count}
                lines.append(line)
        return {"lines": lines, "more": False, "files": count}
    except (re.error, OverflowError, RecursionError) as error:
        raise ChildError(f"{request['text']!r} is no regular expression that can be used: {error}") from error
    except ToolError as error:
        raise ChildError(str(error)) from error


def _texts(root: Path, folder: str, names: str) -> Iterator[tuple[str, str]]:
    for entry in files.walk(root, folder):
        steps = entry.path.split("/")
        if entry.kind != "file" or entry.size > MAX_BYTES or SKIPPED & set(steps) or protected(entry.path):
            continue
        if names and not fnmatch.fnmatch(steps[-1], names) and not fnmatch.fnmatch(entry.path, names):
            continue
        try:
            yield entry.path, files.text(files.read(root, entry.path, MAX_BYTES), entry.path)
        except ToolError:  # no text, or it vanished, or became a link: not part of the workspace's text
            continue


def _matches(pattern: re.Pattern[str], path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), 1):
        found = pattern.search(line)
        if found:
            start = max(0, found.start() - MAX_LINE // 2)
            yield f"{path}:{number}: {line[start : start + MAX_LINE].rstrip()}"


if __name__ == "__main__":
    answer(search)
