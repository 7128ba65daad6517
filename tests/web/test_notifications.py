"""Addresses that are set, shown, refused and tried, as JSON."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from flask.testing import FlaskClient

from actors.addresses import Address, Addresses
from actors.notify import TEST, Outcome, call
from actors.settings import Settings
from tests.actors.play import House
from tests.fakes.listener import Listener
from timothy.config import Notifications
from timothy.eventlog.records import Refused, Written

PATH = "/v1/notifications"
NOTHING = {"webhook": None, "ntfy": None, "configured": {"webhook": None, "ntfy": None, "always": False}}


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as running:
        yield running


def test_what_is_set_is_shown_and_what_is_not_named_stays(client: FlaskClient) -> None:
    assert client.get(PATH).get_json() == NOTHING
    both = {"webhook": "https://hooks.example/a?b=c#d", "ntfy": "http://user:word@192.168.1.2:8080/topic"}
    assert client.put(PATH, json=both).get_json() == {**NOTHING, **both}
    changed = client.put(PATH, json={"ntfy": None}).get_json()
    assert changed == client.get(PATH).get_json() == {**NOTHING, "webhook": both["webhook"]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "nothing to change"),
        ({"mail": "https://example.org"}, "nothing to change"),
        ({"webhook": ""}, "`webhook` is empty"),
        ({"ntfy": 7}, "`ntfy` must be a string"),
        ({"ntfy": ["https://example.org"]}, "`ntfy` must be a string"),
        ({"webhook": "https://example.org/" + "x" * 2000}, "at most 2,000"),
        ({"webhook": "https://example.org", "ntfy": "topic"}, "`ntfy` must be an address"),
        *(
            ({"webhook": url}, "`webhook` must be an address such as")
            for url in (
                "example.org/hook",
                "file:///etc/passwd",
                "javascript:alert(1)",
                "ftp://example.org",
                "http://",
                "https:///path",
                "http://[::1",
                "http://example.org:port/",
                "http://example.org:99999/",
                "http://example.org:0/",
                "http://*.example.org/",
                "http://exa mple.org/",
                " https://example.org/",
                "https://example.org/\nHost: other",
                "https://example.org/\x00",
            )
        ),
    ],
)
def test_a_wrong_address_is_refused_and_nothing_changes(
    client: FlaskClient, body: dict[str, object], words: str
) -> None:
    before = client.put(PATH, json={"webhook": "https://hooks.example/a"}).get_json()
    answer = client.put(PATH, json=body)
    assert (answer.status_code, answer.get_json()["error"]) == (400, "bad_request")
    assert words in answer.get_json()["message"]
    assert client.get(PATH).get_json() == before


def test_the_longest_address_is_taken(client: FlaskClient) -> None:
    longest = "https://example.org/" + "x" * 1980
    assert client.put(PATH, json={"webhook": longest}).get_json()["webhook"] == longest


def test_nobody_sets_reads_or_tests_addresses_from_elsewhere(client: FlaskClient) -> None:
    nobody, foreign = {"Authorization": None}, {"Origin": "http://elsewhere.example"}
    ways: list[Callable[..., object]] = [
        client.get,
        client.put,
        lambda path, **o: client.post(f"{path}/test", **o),
    ]
    assert [way(PATH, headers=nobody).status_code for way in ways] == [401] * 3  # type: ignore[attr-defined]
    assert [way(PATH, headers=foreign).status_code for way in ways[1:]] == [403] * 2  # type: ignore[attr-defined]


def test_what_cannot_be_saved_is_not_used(house: House, client: FlaskClient) -> None:
    before = client.put(PATH, json={"webhook": "https://hooks.example/a"}).get_json()
    house.system.write = lambda order: Refused("append_refused", "no")  # type: ignore[method-assign]
    assert client.put(PATH, json={"webhook": "https://hooks.example/b"}).status_code == 503
    assert client.get(PATH).get_json() == before


def test_what_was_written_last_is_what_is_used() -> None:
    addresses = Addresses(Notifications(), Settings({}))
    written: list[str | None] = []

    def write(order: object) -> Written:
        written.append(order.values["notify.ntfy"])  # type: ignore[attr-defined]
        time.sleep(0.001)  # lets the others come
        return Written()

    many = [
        threading.Thread(target=addresses.change, args=({"ntfy": f"https://example.org/{n}"}, write))
        for n in range(20)
    ]
    for one in many:
        one.start()
    for one in many:
        one.join()
    assert len(written) == 20
    assert addresses.settings() == {"webhook": None, "ntfy": written[-1]}


def ask(url: str, within_s: float = 5.0) -> Outcome:
    began = time.monotonic()
    (outcome,) = call([Address("webhook", url, "settings")], TEST, within_s)
    assert time.monotonic() - began < within_s + 2
    assert outcome.ok is (outcome.code is None) is (outcome.message is None)
    return outcome


def test_a_failure_has_its_name_and_its_words(listener: Listener) -> None:
    assert (ask(f"{listener.url}/hook").status, ask(f"{listener.url}/hook").code) == (204, None)
    broken = ask(f"{listener.url}/broken")
    assert (broken.code, broken.message) == ("refused", "it answered 500 Internal Server Error")
    moved = ask(f"{listener.url}/moved")
    assert (moved.code, moved.status) == ("redirected", 301)
    assert moved.message is not None and f"{listener.url}/new" in moved.message
    assert "/new" not in [path for path, _, _ in listener.calls]
    assert ask(listener.url.replace("http:", "https:")).code == "tls_failed"
    assert ask("http://127.0.0.1:1/hook").message == "it cannot be reached: Connection refused"
    assert ask("http://nowhere.invalid/").code == "unreachable"
    assert [ask(url).code for url in ("http://[", "http://", "http://a\ud800b/")] == ["bad_address"] * 3


def test_an_address_that_says_nothing_is_named_in_time_and_holds_up_no_other(listener: Listener) -> None:
    urls = [f"{listener.url}/{path}" for path in ("silent", "hook", "silent")]
    began = time.monotonic()
    outcomes = call([Address("ntfy", url, "settings") for url in urls], TEST, 0.3)
    assert time.monotonic() - began < 2
    assert [(one.code, one.ok) for one in outcomes] == [("timeout", False), (None, True), ("timeout", False)]
    assert outcomes[0].message == "no answer came within 0.3 s"


@pytest.mark.parametrize("dribble", [b"", b"HTTP/1.1 200 OK\r\n", b"no HTTP at all\r\n\r\n"])
def test_an_address_that_speaks_no_http_is_named(dribble: bytes) -> None:
    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(dribble)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):  # closing with something unread would reset the connection
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        outcome = ask(f"http://127.0.0.1:{listening.getsockname()[1]}/")
    if dribble.startswith(b"HTTP"):
        assert outcome.status == 200  # it had it, as far as it says
    else:
        assert outcome.code == "unreachable" and outcome.message
