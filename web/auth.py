"""Who may come in: the token or its cookie, from the right host and the right origin."""

import hashlib
import hmac
import ipaddress
import re
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, request

from timothy.config import Server
from timothy.errors import ForbiddenHost, ForbiddenOrigin, Unauthorized
from web.requests import field, json_body

COOKIE = "timothy"
_OPEN = {("GET", "/health"), ("GET", "/"), ("POST", "/v1/sign-in")}
_READS = ("GET", "HEAD", "OPTIONS")
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._~%-]+))(?::[0-9]*)?")

sign_in = Blueprint("sign_in", __name__)


class Guard:
    """Judges every request. The cookie is derived from the token, so it outlives a restart and is not it."""

    def __init__(self, token: str, settings: Server) -> None:
        self._token = token.encode()
        self._hosts = {host.lower() for host in settings.hosts}
        self.cookie = hmac.new(self._token, b"timothy sign-in cookie", hashlib.sha256).hexdigest()

    def check(self) -> None:
        """Raises ForbiddenHost, ForbiddenOrigin or Unauthorized when the request must not pass."""
        self._check_host()
        if request.method not in _READS:
            self._check_origin()
        if not self._is_open() and not self._is_signed_in():
            raise Unauthorized("this needs the token: Authorization: Bearer TOKEN, or the sign-in link")

    def opens(self, offered: str) -> bool:
        """True when `offered` is the token."""
        return hmac.compare_digest(offered.encode("utf-8", "replace"), self._token)

    def _is_open(self) -> bool:
        method = "GET" if request.method == "HEAD" else request.method
        static = method == "GET" and request.path.startswith("/static/")
        return static or (method, request.path) in _OPEN

    def _is_signed_in(self) -> bool:
        scheme, _, offered = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.opens(offered.strip())
        cookie = request.cookies.get(COOKIE, "")
        return hmac.compare_digest(cookie.encode("utf-8", "replace"), self.cookie.encode())

    def _check_host(self) -> None:
        if not self._knows(_host_name(request.headers.get("Host", ""))):
            raise ForbiddenHost(
                f"this server does not answer to the host {request.headers.get('Host', '')!r}:"
                " add it to [server] hosts"
            )

    def _knows(self, name: str) -> bool:
        if name in self._hosts or name == "localhost":
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _check_origin(self) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and _network_location(origin) != request.headers.get("Host", "").lower():
            raise ForbiddenOrigin(
                f"a write from the origin {origin!r} is refused: it is not this server's own"
            )


def _network_location(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """The name of a `Host` header without its port; empty when it is none (RFC 9110, 7.2)."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower() if found else ""


def protect(app: Flask, guard: Guard) -> None:
    """Let the guard look at every request before anything else does, and serve the sign-in."""
    app.before_request(guard.check)
    app.extensions["timothy.guard"] = guard
    app.register_blueprint(sign_in)


@sign_in.post("/v1/sign-in")
def trade_token() -> Response:
    """`{"token"}` -> 204 and the cookie. Raises Unauthorized for a wrong token."""
    from flask import current_app

    guard: Guard = current_app.extensions["timothy.guard"]
    if not guard.opens(field(json_body(), "token", str, required=True) or ""):
        raise Unauthorized("this is not the token: open the sign-in link that the server printed")
    response = Response(status=204)
    secure = request.is_secure or request.headers.get("X-Forwarded-Proto") == "https"
    response.set_cookie(
        COOKIE, guard.cookie, max_age=365 * 86400, httponly=True, samesite="Strict", path="/", secure=secure
    )
    return response
