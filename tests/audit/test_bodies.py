"""What a request may carry: a body over the limit is refused however it is sent, and numbers are ASCII."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.stories.server import Server

MEGABYTE = 1 << 20


@pytest.mark.parametrize(("over", "status"), [(0, b"201"), (1, b"413")], ids=["at", "over"])
def test_a_body_in_chunks_is_taken_up_to_the_limit_and_not_a_byte_more(
    server: Server, over: int, status: bytes
) -> None:
    address = urlsplit(server.url)
    head = f"POST /v1/sessions HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {server.token}\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(8):
            connection.sendall(b"%x\r\n%b\r\n" % (MEGABYTE - 1, b" " * (MEGABYTE - 1)))
        last = b" " * (6 + over) + b"{}"
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
        answer = b""
        while b"}" not in answer and (data := connection.recv(1 << 16)):
            answer += data
    assert answer.split(b" ")[1] == status
    assert over == 0 or json.loads(answer.split(b"\r\n\r\n")[1])["error"] == "too_large"


@pytest.mark.parametrize("text", ["\u0665", "\uff15", " 5", "5 ", "+5", "5.0", "0x5", ""])
def test_a_number_that_is_not_written_in_plain_digits_is_refused(server: Server, text: str) -> None:
    answer = server.call("GET", f"/v1/sessions?limit={text.replace('+', '%2B').replace(' ', '%20')}")
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
