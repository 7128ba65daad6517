"""Connections that a cancel handle holds from their first packet on."""

import contextlib
import functools
import socket
import ssl
import struct
import time
from typing import Any
from urllib.request import getproxies, proxy_bypass

import certifi
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from timothy.cancel import Cancel
from timothy.providers.chunked import Response

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Tied:
    """A connection that hands its socket to a cancel handle before it connects."""

    response_class: Any = Response
    cancel: Cancel
    handle: socket.socket | None = None

    def _new_conn(self: Any) -> socket.socket:
        """The place where urllib3 makes its socket; the timeout is for all addresses together."""
        last = OSError("the name has no address")
        until = time.monotonic() + self.timeout
        addresses = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in addresses:
            connection = socket.socket(family, kind, protocol)
            try:
                self._dial(connection, address, until)
            except OSError as error:
                connection.close()
                last = error
            else:
                return connection
        raise last

    def _dial(self: Any, connection: socket.socket, address: Any, until: float) -> None:
        self._tie(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(max(0.001, until - time.monotonic()))
        connection.connect(address)

    def _tie(self: Any, connection: socket.socket) -> None:
        self.untie()
        # A duplicate: TLS takes the socket itself over, and to shut the duplicate shuts the connection.
        self.handle = connection.dup()
        self.cancel.attach(self.handle)

    def shut(self: Any) -> None:
        """End every read and write of this connection, from wherever."""
        if self.handle is not None:
            with contextlib.suppress(OSError):  # the peer was faster
                self.handle.shutdown(socket.SHUT_RDWR)

    def abort(self: Any) -> None:
        """Let the coming close be heard at once, also by a provider that is blocked in a write."""
        if self.handle is not None:
            self.handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def untie(self: Any) -> None:
        """Take the socket back from the cancel handle."""
        if self.handle is not None:
            self.cancel.detach()
            self.handle.close()
            self.handle = None


class _Plain(_Tied, HTTPConnection):
    """Over TCP."""


class _Secure(_Tied, HTTPSConnection):
    """Over TLS."""


Connection = _Plain | _Secure


@functools.cache
def trust() -> ssl.SSLContext:
    """Whom to believe: the system's authorities (SSL_CERT_FILE included) and those of certifi."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def connection(target: urllib3.util.Url, timeout_s: float, cancel: Cancel) -> tuple[Connection, str]:
    """A connection, not yet open, for `target`, and what to ask for on it.

    It goes through the proxy that the environment names, if there is one.
    """
    host, secure = (target.host or "").strip("[]"), target.scheme == "https"
    port = target.port or (443 if secure else 80)
    proxy = _proxy(target.scheme or "http", host)
    at = (proxy.host or "", proxy.port or 80) if proxy else (host, port)
    made: Connection = (
        _Secure(*at, timeout=timeout_s, ssl_context=trust()) if secure else _Plain(*at, timeout=timeout_s)
    )
    made.cancel = cancel
    if proxy and secure:
        made.set_tunnel(host, port)
    return made, target.url if proxy and not secure else target.request_uri


def _proxy(scheme: str, host: str) -> urllib3.util.Url | None:
    """The proxy that the environment names for this host; never one for this machine itself."""
    if host in LOOPBACK or proxy_bypass(host):
        return None
    address = getproxies().get(scheme)
    return urllib3.util.parse_url(address) if address else None
