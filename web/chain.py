"""`/v1/models`, `/v1/providers` and `/v1/usage`: who answers, how they do, what it cost."""

from flask import Blueprint, Response, request

from timothy import ledger
from timothy.errors import BadRequest
from web.here import system
from web.problems import json_response

chain = Blueprint("chain", __name__)


@chain.get("/v1/models")
def models() -> Response:
    """What can be asked for by name."""
    return json_response({"models": system().gateway.models()})


@chain.get("/v1/providers")
def providers() -> Response:
    """The chain's entries, in order."""
    return json_response({"providers": system().gateway.providers()})


@chain.get("/v1/usage")
def usage() -> Response:
    """Sums from the ledger, by day, provider, model or session."""
    group = request.args.get("group", "day")
    if group not in ledger.GROUPS:
        raise BadRequest(f"`group` must be one of {', '.join(ledger.GROUPS)}, is {group[:80]!r}")
    start, end = (ledger.bound(name, request.args.get(name)) for name in ("from", "to"))
    return json_response(system().read(ledger.usage, group=group, start=start, end=end))
