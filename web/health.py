"""`/health` and `/metrics`: how the server does, for people and for machines."""

import shutil
from collections.abc import Iterator
from functools import cache

from flask import Blueprint, Response

from actors.native import Native
from timothy.eventlog import queries
from timothy.eventlog.store import STORAGE_FAULTS
from timothy.upkeep.doctor import examine, tool_servers
from web.here import system
from web.problems import json_response

LOW_DISK_BYTES = 50 << 20

health = Blueprint("health", __name__)


@health.get("/health")
def state() -> Response:
    """200 always: `degraded` says in `checks` what is wrong."""
    checks = {"storage": _storage(), "disk": _disk()}
    good = all(value == "ok" for value in checks.values())
    return json_response({"status": "ok" if good else "degraded", "checks": checks})


def _storage() -> str:
    fault = system().backlog.fault
    return "ok" if fault is None else f"saving fails and is tried again: {fault}"


def _disk() -> str:
    try:
        free = shutil.disk_usage(system().home).free
    except OSError as error:
        return f"{system().home} cannot be looked at: {error.strerror}"
    return "ok" if free >= LOW_DISK_BYTES else f"only {free >> 20} MB are free in {system().home}"


@health.get("/v1/doctor")
def doctor() -> Response:
    """What `timothy doctor` finds, beside the running server."""
    here = system()
    findings = [*_beside()(examine, here.home), *tool_servers(here.toolbox.servers.status())]
    broken = any(finding.level == "broken" for finding in findings)
    return json_response({"healthy": not broken, "findings": findings})


@cache
def _beside() -> Native:
    """A thread of its own: to look through a large log takes long, and no tool waits for it."""
    return Native()


@health.get("/metrics")
def metrics() -> Response:
    """Gauges and counters in Prometheus' text format, version 0.0.4."""
    return Response("".join(_lines()), content_type="text/plain; version=0.0.4; charset=utf-8")


def _lines() -> Iterator[str]:
    here = system()
    yield from _metric("timothy_turns_running", "gauge", "Turns that run now.", len(here.claims))
    yield from _metric("timothy_viewers", "gauge", "Open event streams.", len(here.viewers))
    yield from _metric(
        "timothy_permissions_pending", "gauge", "Open permission requests.", len(here.pending.all())
    )
    yield from _metric(
        "timothy_writes_pending", "gauge", "Writes not durable yet.", len(here.backlog.pending)
    )
    failing = int(here.backlog.fault is not None)
    yield from _metric("timothy_storage_failing", "gauge", "1 while the log cannot be written.", failing)
    yield from _outcomes()


def _outcomes() -> Iterator[str]:
    """Left out while the log cannot be read: a scrape that failed would hide that it fails."""
    try:
        outcomes = system().read(queries.outcomes)
    except STORAGE_FAULTS:
        return
    yield "# HELP timothy_turns_total Turns that ended, by outcome.\n# TYPE timothy_turns_total counter\n"
    for outcome, count in outcomes:
        yield f'timothy_turns_total{{outcome="{outcome}"}} {count}\n'


def _metric(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name} {value}\n"
