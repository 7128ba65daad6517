"""`/v1/models`, `/v1/providers` and `/v1/usage`: who answers, how they do, what it cost."""

import msgspec
from flask import Blueprint, Response, request

from timothy import ledger
from timothy.config import chain as configured
from timothy.errors import BadRequest
from timothy.gateway.probe import probe, probe_through
from timothy.gateway.remote import RemoteGateway
from web.here import system
from web.problems import json_response
from web.requests import field, json_body

TEST_S = 30

chain = Blueprint("chain", __name__)


@chain.get("/v1/models")
def models() -> Response:
    """What can be asked for by name."""
    return json_response({"models": system().gateway.models()})


@chain.get("/v1/providers")
def providers() -> Response:
    """The chain's entries, in order."""
    return json_response({"providers": system().gateway.providers()})


@chain.post("/v1/providers/test")
def test() -> Response:
    """`{"name"}`: ask that entry of the chain one question, and tell what came back."""
    name = field(json_body(), "name", str, required=True)
    here = system()
    known = [row.name for row in here.gateway.providers()]
    if name not in known:
        raise BadRequest(f"no provider {str(name)[:80]!r}; there are: {', '.join(known)}")
    if isinstance(here.gateway, RemoteGateway):
        (result,) = probe_through(here.gateway, TEST_S, name)
    else:
        chosen = tuple(entry for entry in configured(here.config) if entry.name == name)
        (result,) = probe(msgspec.structs.replace(here.config, providers=chosen), here.home, TEST_S)
    return json_response({**msgspec.structs.asdict(result), "text": result.said})


@chain.get("/v1/usage")
def usage() -> Response:
    """Sums from the ledger, by day, provider, model or session."""
    group = request.args.get("group", "day")
    if group not in ledger.GROUPS:
        raise BadRequest(f"`group` must be one of {', '.join(ledger.GROUPS)}, is {group[:80]!r}")
    start, end = (ledger.bound(name, request.args.get(name)) for name in ("from", "to"))
    here = system()
    sums = here.read(ledger.usage, group=group, start=start, end=end)
    return json_response({**sums, "currency": here.config.usage.currency})
