"""Fetches one page and its text: a process, as names, servers and pages can take their time and much memory.

Every address is checked after its name was resolved, and the connection goes to that very address, so that a
name which changes its mind, or a redirect, leads to no machine of the private network.
"""

import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import certifi
import urllib3
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import detect_encoding
from resiliparse.parse.html import HTMLTree

from timothy.tools.children import ChildError, answer

MAX_REDIRECTS = 5
MAX_BYTES = 5_000_000
MAX_URL = 2_000
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; Timothy; a person's own assistant)",
    "Accept": "text/html,application/xhtml+xml,application/json,text/*;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_READABLE = re.compile(r"text/|application/(.*\+)?(json|xml|javascript|yaml|toml|x-ndjson|rss|atom)")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: how an IPv6-only network reaches every IPv4 address
# Of the IANA registries of special-purpose addresses, what some versions of `ipaddress` call global;
# with the tunnels 6to4 and Teredo (in 2001::/23), which hide an IPv4 address.
_SPECIAL = [
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("192.88.99.0/24"),
    ipaddress.ip_network("::/96"),
    ipaddress.ip_network("64:ff9b:1::/48"),
    ipaddress.ip_network("100::/64"),
    ipaddress.ip_network("2001::/23"),
    ipaddress.ip_network("2002::/16"),
    ipaddress.ip_network("5f00::/16"),
    ipaddress.ip_network("fec0::/10"),
]


def fetch(request: dict[str, Any]) -> dict[str, Any]:
    """`url`, `status`, `type`, `title`, `text`, `cut` of the page at `url`, after at most five redirects.

    `trusted` names origins (`http://127.0.0.1:8888`) that the person configured: they may be anywhere.
    """
    url = request["url"]
    for _ in range(MAX_REDIRECTS + 1):
        parts = checked(url)
        with closing(_got(parts, request["trusted"])) as response:
            target = response.headers.get("Location")
            if response.status not in REDIRECTS or not target:
                return {"url": url, **_page(response, request["whole"], request["raw"])}
            url = urljoin(url, target)
    raise ChildError(f"gave up after {MAX_REDIRECTS} redirects")


def checked(url: str) -> SplitResult:
    """The parts of a URL that may be fetched. Raises ChildError."""
    if len(url) > MAX_URL or re.search(r"[\x00-\x20\x7f\\]", url):
        raise ChildError("the URL is too long, or holds spaces, backslashes or characters that do not show")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ChildError(f"{url} is no URL: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise ChildError(
            f"only http and https can be fetched, not {parts.scheme or 'a URL without a scheme'}"
        )
    if not host or port == 0:
        raise ChildError(f"{url} names no host")
    if "@" in parts.netloc:
        raise ChildError("a URL with a user name or password in it is refused")
    return parts


def public(address: str) -> bool:
    """Whether `address` (IPv4, IPv6) is the open internet's, also in its mapped forms."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or (ipaddress.IPv4Address(ip.packed[12:]) if ip in _NAT64 else None)
        if inner is not None:
            return public(str(inner))
    if any(ip in network for network in _SPECIAL):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def addresses(host: str, port: int, *, trusted: bool) -> list[str]:
    """Every address of `host`. Raises ChildError when there is none, or one that is not public."""
    try:
        name = host if ":" in host else host.encode("idna").decode()
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ChildError(f"the host {host} cannot be found: {error}") from error
    result = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    private = [address for address in result if not public(address)]
    if private and not trusted:
        raise ChildError(
            f"{host} is refused: {private[0]} is an address of this computer or of a private network"
        )
    return result


def _got(parts: SplitResult, trusted: list[str]) -> urllib3.BaseHTTPResponse:
    """The answer of the first checked address that can be connected to, asked under the host's own name."""
    host, port = str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
    refused = ""
    for address in addresses(host, port, trusted=f"{parts.scheme}://{parts.netloc}" in trusted):
        pool = _pool(parts.scheme, address, host, port)
        try:
            return pool.urlopen(
                "GET", _target(parts), headers=_headers(parts), redirect=False, preload_content=False
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            refused = str(error)
        except urllib3.exceptions.HTTPError as error:
            raise ChildError(f"{host} did not answer: {error}") from error
    raise ChildError(f"{host} cannot be reached: {refused}")


def _pool(scheme: str, address: str, host: str, port: int) -> urllib3.HTTPConnectionPool:
    timeout = urllib3.Timeout(connect=8, read=15)
    if scheme == "http":
        return urllib3.HTTPConnectionPool(address, port, timeout=timeout, retries=False)
    context = ssl.create_default_context()  # the system's authorities, and SSL_CERT_FILE
    context.load_verify_locations(certifi.where())
    return urllib3.HTTPSConnectionPool(
        address,
        port,
        timeout=timeout,
        retries=False,
        ssl_context=context,
        server_hostname=host,
        assert_hostname=host,
    )


def _target(parts: SplitResult) -> str:
    return _escaped(parts.path or "/") + (f"?{_escaped(parts.query)}" if parts.query else "")


def _headers(parts: SplitResult) -> dict[str, str]:
    return {
        **HEADERS,
        "Host": parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode(),
    }


def _escaped(text: str) -> str:
    return re.sub(r"[^\x21-\x7e]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def _page(response: urllib3.BaseHTTPResponse, whole: bool, raw: bool) -> dict[str, Any]:
    kind = response.headers.get("Content-Type", "").lower()
    data, cut = _body(response)
    if response.status >= 400:
        raise ChildError(f"HTTP {response.status} {response.reason}: {_text(data, kind)[:300]}")
    if (kind and not _READABLE.match(kind)) or b"\0" in data[:1024]:
        raise ChildError(
            f"{kind.partition(';')[0] or 'the answer'} ({len(data)} bytes) is no text that can be read"
        )
    text, title = _text(data, kind), ""
    if not raw and ("html" in kind or (not kind and "<html" in text[:1024].lower())):
        title, text = readable(text, whole)
    return {"status": response.status, "type": kind, "title": title, "text": text, "cut": cut}


def readable(html: str, whole: bool) -> tuple[str, str]:
    """The title of a page and its text; the main part only, unless `whole` or that is next to nothing."""
    tree = HTMLTree.parse(html)
    text = extract_plain_text(tree, main_content=not whole, preserve_formatting=True)
    everything = text if whole else extract_plain_text(tree, main_content=False, preserve_formatting=True)
    if len(text) < 200 and len(everything) > 2 * len(text):
        text = everything
    return " ".join((tree.title or "").split())[:300], text


def _body(response: urllib3.BaseHTTPResponse) -> tuple[bytes, bool]:
    """What the server sends, up to the limit, and whether it was cut there."""
    data = bytearray()
    try:
        for piece in _pieces(response):
            data += piece
            if len(data) > MAX_BYTES:
                return bytes(data[:MAX_BYTES]), True
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ChildError(f"the answer broke off: {error}") from error
    return bytes(data), False


def _pieces(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    while piece := response.read(65536, decode_content=True):
        yield piece


def _text(data: bytes, kind: str) -> str:
    named = re.search(r"charset=[\"']?([\w.:-]+)", kind)
    encoding = named[1] if named else detect_encoding(data, from_html_meta="html" in kind)
    try:
        return data.decode(encoding or "utf-8", "replace")
    except LookupError:  # a charset that nobody knows
        return data.decode("utf-8", "replace")


if __name__ == "__main__":
    answer(fetch)
