"""The checkout's own Python environment in `.venv`: made once, renewed when setup.cfg changes."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST = (3, 11)

if os.environ.get("HOME") == "":  # an empty HOME would put every cache into the root folder
    del os.environ["HOME"]


def say(text: str) -> None:
    """One short line about what happens, on stderr, so that a program's output stays its own."""
    print(f"-- {text}", file=sys.stderr, flush=True)


def prepare(*extras: str) -> Path:
    """The environment's Python, with this checkout and its `extras` installed; exits when that fails."""
    _use_a_new_enough_python()
    stamp = VENV / f"installed-{'-'.join(sorted(extras))}"
    if stamp.exists() and PYTHON.exists() and stamp.read_text() == _fingerprint():
        return PYTHON
    if not PYTHON.exists():
        _make()
    _install(extras)
    stamp.write_text(_fingerprint())
    return PYTHON


def has_engine() -> bool:
    """Whether the embedded model's engine can be loaded by the environment's Python."""
    return subprocess.run([PYTHON, "-c", "import xllamacpp"], stderr=subprocess.DEVNULL).returncode == 0


def system_package(name: str) -> bool:
    """Install a Debian package where that is allowed; True when it is there afterwards."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    say(f"installing the system's package {name}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "-q", "update"], ["apt-get", "-q", "install", "-y", name]):
        if subprocess.run(command, env=environment, stdout=sys.stderr, stdin=subprocess.DEVNULL).returncode:
            return False
    return True


def _use_a_new_enough_python() -> None:
    if sys.version_info >= OLDEST:
        return
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        found = shutil.which(name)
        if found is not None:
            os.execv(found, [found, *sys.argv])
    sys.exit(f"Timothy needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")


def _fingerprint() -> str:
    """Changes with what is to be installed, with the folder it is installed from, and with the Python."""
    base = os.readlink(PYTHON) if PYTHON.is_symlink() else ""
    return hashlib.sha256((ROOT / "setup.cfg").read_bytes() + f"{ROOT} {base}".encode()).hexdigest()


def _make() -> None:
    say(f"making a Python environment in {VENV}")
    if _venv():
        return
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if not (system_package(f"{version}-venv") and _venv()):
        sys.exit(
            f"{sys.executable} cannot make a virtual environment. Install its venv module"
            f" (Debian, Ubuntu: apt install {version}-venv) and run this again."
        )


def _venv() -> bool:
    shutil.rmtree(VENV, ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "venv", VENV], stdout=sys.stderr).returncode == 0


def _install(extras: "tuple[str, ...]") -> None:
    """Install the checkout, without the embedded model's engine where this machine can have none."""
    say(f"installing Timothy and what it needs ({', '.join(extras)})")
    without = tuple(extra for extra in extras if extra != "local")
    if _pip(extras):
        if "local" in extras:
            _complete_engine()
    elif without != extras and _pip(without):
        say("the embedded model's engine has no prebuilt package for this machine: going on without it")
    else:
        sys.exit("the installation failed; pip's own words stand above")


def _pip(extras: "tuple[str, ...]") -> bool:
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    options = ["-q", "--no-input", "--disable-pip-version-check", "--only-binary", "xllamacpp"]
    command = [str(PYTHON), "-m", "pip", "install", *options, "-e", target]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode == 0


def _complete_engine() -> None:
    if not has_engine() and not (system_package("libgomp1") and has_engine()):
        say("the embedded model's engine does not load; it needs the library libgomp (Debian: libgomp1)")
