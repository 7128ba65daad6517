"""The home folder: who holds it, and the token that opens the door."""

import fcntl
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from timothy.errors import ConfigError, HomeLocked

TOKEN_VARIABLE = "TIMOTHY_API_TOKEN"
TOKEN_FILE = "token"
LOCK_FILE = "server.lock"


def prepare(home: Path) -> None:
    """Make the folder, for its owner alone. Raises ConfigError when that cannot be."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(f"the home {home} cannot be made: {error.strerror}") from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise ConfigError(f"the home {home} cannot be written by this user")


def private(path: Path) -> Path:
    """`path`, made for its owner alone if it is missing: the home may be open to others. Raises OSError."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    return path


def lock(home: Path) -> TextIO:
    """Hold the home until the returned file is closed or this process dies. Raises HomeLocked."""
    path = private(home / LOCK_FILE)
    file = open(path, "a+", encoding="ascii")  # noqa: SIM115  held as long as the server
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(home)
        file.close()
        raise HomeLocked(
            f"another server uses {home}: process {holder}. Stop it, or use another --home"
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _holder(home: Path) -> str:
    return (home / LOCK_FILE).read_text(encoding="ascii").strip() or "unknown"


def user_token(environment: Mapping[str, str] = os.environ) -> str:
    """The token that the user set, or "". Raises ConfigError for one that no header and no link can carry."""
    chosen = environment.get(TOKEN_VARIABLE, "").strip()
    if not all("!" <= character <= "~" for character in chosen):
        raise ConfigError(f"{TOKEN_VARIABLE} may have visible ASCII characters only, and no blanks")
    return chosen


def token(home: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The user's token, else the one kept in the home, made at the first start and readable by the owner.

    Raises ConfigError for a token that cannot be one, and a file that cannot be kept from others.
    """
    chosen = user_token(environment)
    if chosen:
        return chosen
    path = home / TOKEN_FILE
    if not path.exists() or not path.read_text(encoding="ascii").strip():  # an empty one would open the door
        _keep(path, secrets.token_urlsafe(32))
    _close(path)
    return path.read_text(encoding="ascii").strip()


def _close(path: Path) -> None:
    """Take the file from all but its owner: it may have been copied or restored with looser rights."""
    if not path.stat().st_mode & 0o077:
        return
    try:
        path.chmod(0o600)
    except OSError as error:
        raise ConfigError(
            f"{path} can be read by others, and that cannot be changed: {error.strerror}"
        ) from error


def _keep(path: Path, value: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(value + "\n")
    draft.rename(path)
