"""The layers: no arrow points up."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
# From top to bottom; a module imports its own line and the lines below. `commands` joins the command line.
LAYERS = (
    ("client", "cli", "commands", "upkeep"),
    ("gateway", "turn"),
    ("providers", "tools", "eventlog", "ledger"),
    ("conversation", "permissions", "database", "schema", "config", "home", "model"),
    ("events", "stream", "cancel", "errors", "moment", "text", "hazards", "hints"),
)
FOREIGN = {
    "timothy": {"flask", "werkzeug", "pykka", "gevent", "actors", "web"},
    "actors": {"flask", "werkzeug", "web"},
    "web": set(),
    "scripts": {"timothy", "actors", "web"},
}
# Scripts speak HTTP alone, and may do so through the client. A benchmark may take one part out to measure it.
DOORS = {"scripts": "timothy.client"}
MEASURES = "scripts/bench_"


def imports(path: Path) -> set[str]:
    """The full names of all modules that the program in `path` imports, wherever it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: a relative import hides its layer"
            names.update(
                {node.module} if node.module != "timothy" else {f"timothy.{a.name}" for a in node.names}
            )
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def programs(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package).rglob("*")):
        if path.suffix == ".py" or (path.parent.name == "scripts" and is_program(path)):
            yield path


def is_program(path: Path) -> bool:
    return path.is_file() and b"python" in path.read_bytes().split(b"\n", 1)[0]


def layer(parts: tuple[str, ...]) -> int | None:
    """The line of the module `timothy.PARTS`, or None for a name that is no module of the plan."""
    name = "commands" if parts[-1] == "commands" else parts[0]
    return next((line for line, names in enumerate(LAYERS) if name in names), None)


@pytest.mark.parametrize("package", FOREIGN)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in programs(package)
        if not str(path.relative_to(ROOT)).startswith(MEASURES)
        for name in imports(path)
        if name.partition(".")[0] in FOREIGN[package] and not name.startswith(DOORS.get(package, " "))
    }
    assert found == set()


def test_every_module_of_the_domain_has_its_place_in_the_plan() -> None:
    modules = {path.relative_to(ROOT / "timothy").with_suffix("") for path in programs("timothy")}
    assert {str(module) for module in modules if layer(module.parts) is None} - {"__init__"} == set()


def test_no_arrow_points_up_inside_the_domain() -> None:
    upward = set()
    for path in programs("timothy"):
        here = layer(path.relative_to(ROOT / "timothy").with_suffix("").parts)
        for name in imports(path):
            below = layer(tuple(name.split(".")[1:])) if name.startswith("timothy.") else None
            if here is not None and below is not None and below < here:
                upward.add((str(path.relative_to(ROOT)), name))
    assert upward == set()


def test_an_arrow_that_points_up_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "events.py"
    path.write_text("def late():\n    from timothy import gateway\n    import timothy.turn.machine\n")
    assert imports(path) >= {"timothy.gateway", "timothy.turn.machine"}
    assert layer(("gateway",)) == layer(("turn", "machine")) == 1
    assert layer(("model", "commands")) == layer(("cli",)) == 0
