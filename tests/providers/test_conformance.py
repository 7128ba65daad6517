"""One suite for every driver that there is: what its wire says comes out the same, however it arrives."""

import importlib
import inspect
import json
import pkgutil
import random
from collections.abc import Callable
from typing import Any, get_args

import pytest

import timothy.providers
from tests.providers.peer import ASKED, CHUNKED, DATA, OK, QUIRKS, Peer, driver, merged, summed
from timothy.cancel import Cancel
from timothy.config import DriverName
from timothy.providers.http import HttpDriver

SHORT_BYTES = 1200
SPLITS = 200
MODULES = [
    module.name for module in pkgutil.iter_modules(timothy.providers.__path__) if module.name != "base"
]
DRIVERS = [
    name for name in MODULES if hasattr(importlib.import_module(f"timothy.providers.{name}"), "Driver")
]
WIRES = sorted({case["wire"] for case in QUIRKS})
CASES = [pytest.param(case, id=case["name"]) for case in QUIRKS]


def captured(name: str) -> bytes:
    return (DATA / "llamacpp" / f"{name}.sse").read_bytes()


# What came of each capture; the words themselves are the model's, so only their length is told.
CAPTURES: dict[str, dict[str, Any]] = {
    "abort": {"terminal": "error", "code": "stream_cut"},
    "auth-ok": {"terminal": "done", "incomplete": "length", "usage": None},
    "error-auth": {"terminal": "error", "code": "auth_failed", "text": ""},
    "error-badjson-role": {"terminal": "error", "code": "bad_request"},
    "error-invalid": {"terminal": "error", "code": "bad_request"},
    "error-unknown-model": {"terminal": "done"},
    "length": {
        "terminal": "done",
        "incomplete": "length",
        "usage": {"input_tokens": 29, "output_tokens": 12},
    },
    "nostream": {"terminal": "done", "text": "The capital of France is Paris."},
    "overflow-generation": {"terminal": "done", "incomplete": "length"},
    "overflow-prompt": {"terminal": "error", "code": "context_overflow"},
    "overflow-prompt-nostream": {"terminal": "error", "code": "context_overflow"},
    "parallel-0": {"terminal": "done"},
    "parallel-1": {"terminal": "done"},
    "ping": {"terminal": "done", "text": "I'm sorry"},
    "plain": {"terminal": "done", "incomplete": None, "usage": {"input_tokens": 32, "output_tokens": 8}},
    "plain-nousage": {"terminal": "done", "usage": None},
    "server-killed": {"terminal": "error", "code": "stream_cut"},
    "server-stdin-eof": {"terminal": "error", "code": "stream_cut"},
    "stop-sequence": {"terminal": "done", "incomplete": None},
    "timings-progress": {"terminal": "done", "usage": {"input_tokens": 23, "output_tokens": 6}},
    "tool-ignored-smollm2": {"terminal": "done", "calls": []},
    "tool-qwen05-auto": {"terminal": "done", "calls": []},
    "toolcall": {"terminal": "done", "calls": [["get_time", {"city": "London"}]]},
    "toolcall-length": {"terminal": "done", "incomplete": "length", "calls": []},
    "toolcall-parallel": {
        "terminal": "done",
        "calls": [["get_time", {"city": city}] for city in ("London", "Berlin", "Madrid")],
    },
    "unicode": {"terminal": "done"},
    "anthropic-messages": {
        "terminal": "done",
        "text": "The capital of France is Paris.",
        "usage": {"input_tokens": 27, "output_tokens": 8},
    },
}
NOT_OUR_WIRE = {"responses-api"}


def wire_of(capture: str) -> str:
    return "anthropic" if capture.startswith("anthropic") else "openai"


def splits(body: bytes) -> list[list[bytes]]:
    """Every split in two of a short body, and byte by byte; of a long one, 200 splits at random."""
    if len(body) <= SHORT_BYTES:
        places = [[place] for place in range(1, len(body))] + [list(range(1, len(body)))]
    else:
        chance = random.Random(len(body))
        counts = [chance.randint(1, 40) for _ in range(SPLITS)]
        places = [sorted(chance.sample(range(1, len(body)), count)) for count in counts]
    return [[body[a:b] for a, b in zip([0, *cut], [*cut, len(body)], strict=True)] for cut in places]


def assert_same_in_any_split(wire: str, body: bytes) -> None:
    asked = driver(wire)
    whole = merged(asked.parse([body]))
    for reads in splits(body):
        assert merged(asked.parse(reads)) == whole, reads


def assert_expected(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {key: got[key] for key in expected} == expected


@pytest.mark.once
@pytest.mark.parametrize("case", CASES)
def test_a_quirk_gives_what_it_means_in_any_split(case: dict[str, Any]) -> None:
    body = case["body"].encode()
    assert_expected(summed(driver(case["wire"]).parse([body])), case["expect"])
    assert_same_in_any_split(case["wire"], body)


@pytest.mark.once
@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_gives_what_it_means_in_any_split(name: str) -> None:
    body = captured(name)
    assert_expected(summed(driver(wire_of(name)).parse([body])), CAPTURES[name])
    assert_same_in_any_split(wire_of(name), body)


def test_every_capture_is_looked_at() -> None:
    assert {path.stem for path in (DATA / "llamacpp").glob("*.sse")} == set(CAPTURES) | NOT_OUR_WIRE


def test_a_capture_of_text_comes_out_letter_by_letter() -> None:
    chunks = [
        json.loads(line[6:]) for line in captured("unicode").split(b"\n") if line.startswith(b"data: {")
    ]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    expected = "".join(delta.get("content") or "" for delta in deltas)
    assert len(expected) > 50
    assert summed(driver("openai").parse([captured("unicode")]))["text"] == expected


@pytest.mark.parametrize("case", CASES)
def test_a_quirk_over_a_socket_gives_the_same_as_in_memory(
    case: dict[str, Any], peer: Callable[..., Peer]
) -> None:
    body = case["body"].encode()
    half = len(body) // 2
    server = peer([OK, body[:half], 0.001, body[half:]])
    asked = driver(case["wire"], server.url(case["wire"]))
    assert merged(asked.stream(ASKED, Cancel())) == merged(asked.parse([body]))


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_over_a_socket_gives_the_same_as_in_memory(name: str, peer: Callable[..., Peer]) -> None:
    head = (DATA / "llamacpp" / f"{name}.headers").read_bytes()
    body = captured(name)
    cut = CAPTURES[name].get("code") == "stream_cut"
    chunked = b"Transfer-Encoding: chunked" in head
    sent = b"%x\r\n%b\r\n" % (len(body), body) + (b"" if cut else b"0\r\n\r\n") if chunked else body
    server = peer([head, sent])
    asked = driver(wire_of(name), server.url(wire_of(name)))
    over_socket, in_memory = merged(asked.stream(ASKED, Cancel())), merged(asked.parse([body]))
    assert over_socket[:-1] == in_memory[:-1]
    assert type(over_socket[-1]) is type(in_memory[-1])
    assert getattr(over_socket[-1], "code", None) == getattr(in_memory[-1], "code", None)


def test_the_drivers_are_those_that_can_be_configured() -> None:
    assert set(DRIVERS) == set(get_args(DriverName))


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_keeps_the_protocol(name: str) -> None:
    made = importlib.import_module(f"timothy.providers.{name}").Driver
    assert list(inspect.signature(made).parameters)[:2] == ["settings", "home"]
    assert list(inspect.signature(made.stream).parameters) == ["self", "request", "cancel"]
    assert inspect.signature(made.close).parameters.keys() == {"self"}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_of_a_wire_has_captures(name: str) -> None:
    made = importlib.import_module(f"timothy.providers.{name}").Driver
    assert (name in WIRES) == issubclass(made, HttpDriver)


@pytest.mark.parametrize("name", [*WIRES, "scripted"])
def test_a_driver_that_was_cancelled_before_it_began_says_stopped(name: str) -> None:
    cancel = Cancel()
    cancel.cancel()
    assert summed(driver(name).stream(ASKED, cancel))["code"] == "stopped"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body", [b"", b"\n", b"no stream at all", b"<html>502 Bad Gateway</html>", b"{}", b"[]", b"5\n\n"]
)
def test_a_body_that_is_not_the_wire_ends_by_name(wire: str, body: bytes) -> None:
    got = summed(driver(wire).parse([body]))
    assert got["code"] in ("malformed_stream", "stream_cut")
    assert got["text"] == ""


@pytest.mark.parametrize("wire", WIRES)
def test_a_page_or_words_instead_of_a_stream_reach_the_user(wire: str, peer: Callable[..., Peer]) -> None:
    for body in (b"upstream exploded\n\n", b"<html><body>upstream exploded</body></html>"):
        server = peer([CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)])
        *_, last = driver(wire, server.url(wire)).stream(ASKED, Cancel())
        assert last.code == "malformed_stream"
        assert "upstream exploded" in last.message and "<" not in last.message
