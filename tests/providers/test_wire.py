"""Over a real socket: an ending has its name, a timer its seconds, and a cancel shuts the connection."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import trustme

from tests.providers.peer import ASKED, CHUNKED, DONE, HOLD, OK, RESET, Peer, driver, summed, text_chunk
from timothy.cancel import Cancel
from timothy.conversation import Message, ModelRequest, ToolSpec
from timothy.events import Error, Status, TextDelta
from timothy.providers import dial
from timothy.providers.openai import Driver as OpenAi

AT_ONCE_S = 1.0  # generous for a busy machine; what is meant is: not the timers' seconds
Start = Callable[..., Peer]


def last(events: Any) -> Error:
    *_, event = events
    assert isinstance(event, Error), event
    return event


def asked(server: Peer, wire: str = "openai", **fields: Any) -> Iterator[Any]:
    return driver(wire, server.url(wire), **fields).stream(ASKED, Cancel())


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("chunked", [False, True])
def test_tokens_come_out_one_by_one(peer: Start, chunked: bool) -> None:
    gates = [threading.Event() for _ in range(5)]
    told = [chunk(text_chunk(f"t{n}")) if chunked else text_chunk(f"t{n}") for n in range(5)]
    end = chunk(DONE) + b"0\r\n\r\n" if chunked else DONE
    pieces = [piece for text, gate in zip(told, gates, strict=True) for piece in (text, gate)]
    events = asked(peer([CHUNKED if chunked else OK, *pieces, end]))
    for number, gate in enumerate(gates):
        assert next(events) == TextDelta(f"t{number}")  # the next one is not even sent yet
        gate.set()
    assert summed(events)["terminal"] == "done"


def test_text_that_came_in_one_read_is_one_delta(peer: Start) -> None:
    events = list(asked(peer([OK + text_chunk("a") + text_chunk("b") + DONE])))
    assert events[0] == TextDelta("ab")


def test_a_packed_body_is_unpacked(peer: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    assert summed(asked(peer([head + gzip.compress(text_chunk("a") + DONE)])))["text"] == "a"
    assert last(asked(peer([head + b"no gzip at all"]))).code == "malformed_stream"


def test_a_request_carries_its_id_and_its_key(peer: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_KEY", "secret-key\n")
    server = peer([OK + text_chunk("a") + DONE])
    assert summed(asked(server, api_key_env="PEER_KEY"))["terminal"] == "done"
    assert "X-Request-Id: request-1" in server.heads[0]
    assert "Authorization: Bearer secret-key" in server.heads[0]


def test_a_key_that_no_header_can_carry_is_a_named_failure(
    peer: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_KEY", "schlüssel\r\nX-Evil: 1")
    failure = last(asked(peer(), api_key_env="PEER_KEY"))
    assert failure.code == "auth_failed" and "PEER_KEY" in failure.message


@pytest.mark.parametrize(
    ("wire", "url", "path"),
    [
        ("openai", "/v1", "/v1/chat/completions"),
        ("openai", "/v1/", "/v1/chat/completions"),
        ("openai", "/v1/chat/completions", "/v1/chat/completions"),
        ("anthropic", "", "/v1/messages"),
        ("anthropic", "/v1", "/v1/messages"),
        ("anthropic", "/v1/messages", "/v1/messages"),
        ("anthropic", "/proxy/anthropic/", "/proxy/anthropic/v1/messages"),
        ("ollama", "", "/api/chat"),
        ("ollama", "/api", "/api/chat"),
        ("ollama", "/api/chat/", "/api/chat"),
    ],
)
def test_a_base_url_is_what_the_vendors_client_takes(peer: Start, wire: str, url: str, path: str) -> None:
    server = peer([b"HTTP/1.1 500 X\r\n\r\n"])
    last(driver(wire, f"http://127.0.0.1:{server.port}{url}").stream(ASKED, Cancel()))
    assert server.heads[0].startswith(f"POST {path} HTTP/1.1")


# --- refusals -----------------------------------------------------------------------------------------------


def test_a_refusal_reaches_the_user_in_the_providers_words(peer: Start) -> None:
    body = b'{"error":{"message":"You are out of credit","type":"insufficient_quota"}}'
    failure = last(
        asked(peer([b"HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(body) + body]))
    )
    assert (failure.code, failure.retry_after_s) == ("rate_limited", 7.0)
    assert "You are out of credit" in failure.message


def test_an_overflow_tells_both_numbers(peer: Start) -> None:
    body = (
        b'{"error":{"code":400,"message":"request (921 tokens) exceeds the context size (512 tokens)",'
        b'"type":"exceed_context_size_error","n_prompt_tokens":921,"n_ctx":512}}'
    )
    failure = last(asked(peer([b"HTTP/1.1 400 Bad Request\r\n\r\n" + body])))
    assert (failure.code, failure.prompt_tokens, failure.context_window) == ("context_overflow", 921, 512)
    assert not failure.retryable


def test_a_redirect_is_not_followed(peer: Start) -> None:
    target = peer()
    failure = last(asked(peer([f"HTTP/1.1 307 X\r\nLocation: {target.url()}\r\n\r\n".encode()])))
    assert failure.code == "provider_error"
    assert "redirect" in failure.message and target.url() in failure.message
    assert not target.asked.is_set()


def test_an_error_page_is_told_without_its_tags(peer: Start) -> None:
    page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
    failure = last(asked(peer([b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n" + page])))
    assert failure.code == "overloaded"
    assert "502 Bad Gateway nginx" in failure.message


def test_a_refusal_that_comes_before_the_whole_request_was_read_is_heard(peer: Start) -> None:
    class Hasty(Peer):
        def _read(self, client: socket.socket) -> None:
            client.recv(1000)

    server = Hasty([b'HTTP/1.1 413 X\r\n\r\n{"error":"too much"}', 0.05])
    request = type(ASKED)((type(ASKED.messages[0])("user", "x" * 20_000_000),))
    failure = last(driver("openai", server.url()).stream(request, Cancel()))
    assert failure.code in ("context_overflow", "stream_cut")  # the kernel may drop the answer with the rest
    server.close()


# --- endings that nobody said -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "code", "words"),
    [
        pytest.param([], "stream_cut", "before it answered", id="no answer"),
        pytest.param([RESET], "stream_cut", "before it answered", id="a reset instead of an answer"),
        pytest.param(
            [b"SSH-2.0-OpenSSH_9\r\n\r\n"], "malformed_stream", "does not speak HTTP", id="not HTTP"
        ),
        pytest.param([OK], "stream_cut", "without saying", id="headers only"),
        pytest.param([OK, text_chunk("a")], "stream_cut", "without saying", id="an end after text"),
        pytest.param(
            [OK, text_chunk("a"), b'data: {"choi'], "stream_cut", "middle of a frame", id="half a frame"
        ),
        pytest.param([CHUNKED, chunk(text_chunk("a"))], "stream_cut", "broke", id="no last chunk"),
        pytest.param(
            [CHUNKED, chunk(text_chunk("a")), b"ff\r\ndata"], "stream_cut", "broke", id="half a chunk"
        ),
        pytest.param(
            [CHUNKED, chunk(text_chunk("a")), b"ff\r\ndata", RESET], "stream_cut", "broke", id="a reset"
        ),
        pytest.param([CHUNKED, chunk(text_chunk("a")), b"zz\r\n"], "stream_cut", "broke", id="no chunk size"),
        pytest.param([OK, b"data: {nonsense}\n\n"], "malformed_stream", "{nonsense}", id="no JSON"),
    ],
)
def test_an_ending_that_nobody_said_has_a_name(peer: Start, pieces: list[Any], code: str, words: str) -> None:
    events = list(asked(peer(pieces)))
    assert summed(events)["code"] == code
    assert words in last(events).message
    assert summed(events)["text"] in ("", "a")


def test_a_declared_length_that_never_comes_is_a_cut(peer: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
    assert summed(asked(peer([head + text_chunk("a")])))["code"] == "stream_cut"


def test_an_answer_that_said_why_it_ended_may_break_off_or_stay_open(peer: Start, monkeypatch: Any) -> None:
    monkeypatch.setattr("timothy.providers.wire.AFTER_FINISH_S", 0.05)
    finish = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    for end in ([RESET], [HOLD]):
        got = summed(asked(peer([CHUNKED, chunk(text_chunk("a")) + chunk(finish), *end])))
        assert (got["text"], got["terminal"]) == ("a", "done")


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    failure = last(driver("openai", f"http://127.0.0.1:{port}/v1").stream(ASKED, Cancel()))
    assert failure.code == "provider_unreachable"
    assert f"127.0.0.1:{port}" in failure.message and "refused" in failure.message


def test_a_name_that_is_not_found_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(dial.socket, "getaddrinfo", unknown)
    failure = last(driver("openai", "http://no-such-host.example/v1").stream(ASKED, Cancel()))
    assert failure.code == "provider_unreachable"
    assert "no-such-host.example" in failure.message and "name is not found" in failure.message


@pytest.mark.parametrize("base", ["http://127.0.0.1:99999/v1", "http://[::1/v1", "http://", "http://a b/v1"])
def test_an_address_that_is_none_is_unreachable(base: str) -> None:
    assert last(driver("openai", base).stream(ASKED, Cancel())).code == "provider_unreachable"


# --- TLS ----------------------------------------------------------------------------------------------------


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def served_by(authority: trustme.CA) -> Any:
    context = dial.ssl.SSLContext(dial.ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    dial.trust.cache_clear()
    yield
    dial.trust.cache_clear()


@pytest.mark.usefixtures("trusted")
def test_a_server_that_the_system_trusts_is_asked_over_tls(peer: Start, authority: trustme.CA) -> None:
    server = peer([OK, text_chunk("a"), DONE], tls=served_by(authority))
    assert summed(asked(server))["text"] == "a"


def test_a_server_that_nobody_trusts_is_unreachable(peer: Start, authority: trustme.CA) -> None:
    failure = last(asked(peer([OK, DONE], tls=served_by(authority))))
    assert failure.code == "provider_unreachable"
    assert "TLS failed" in failure.message and "certificate" in failure.message.lower()


def test_a_server_that_speaks_no_tls_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        port = listener.getsockname()[1]
        failure = last(driver("openai", f"https://127.0.0.1:{port}/v1").stream(ASKED, Cancel()))
        thread.join(5)
    assert failure.code == "provider_unreachable"


# --- timers -------------------------------------------------------------------------------------------------


def crowded() -> tuple[socket.socket, list[socket.socket]]:
    """A port whose queue is full: a connect to it waits."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
    return listener, waiting


def test_the_connect_timer_names_its_seconds_and_its_setting() -> None:
    listener, waiting = crowded()
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    failure = last(driver("openai", base, connect_timeout_s=0.1).stream(ASKED, Cancel()))
    assert failure.code == "provider_unreachable"
    assert "0.1 s" in failure.message and "connect_timeout_s" in failure.message
    for one in [listener, *waiting]:
        one.close()


def test_a_long_request_may_take_longer_than_the_connect_timer_to_be_sent() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            time.sleep(0.4)  # what is meant is a slow line: nothing is taken for twice the timer's time
            taken = bytearray()
            while not taken.endswith(b"}"):
                taken += client.recv(1 << 20)
            client.sendall(OK + text_chunk("seen") + DONE)

    thread = threading.Thread(target=serve)
    thread.start()
    request = ModelRequest((Message("user", "x" * (16 << 20)),))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    got = summed(driver("openai", base, connect_timeout_s=0.2).stream(request, Cancel()))
    assert (got["text"], got["code"]) == ("seen", None)
    thread.join()
    listener.close()


@pytest.mark.parametrize(
    ("pieces", "fields", "words"),
    [
        pytest.param(
            [HOLD], {"first_content_timeout_s": 0.1}, "0.1 s (first_content_timeout_s)", id="no headers"
        ),
        pytest.param(
            [HOLD], {"idle_timeout_s": 0.1}, "0.1 s (idle_timeout_s)", id="only the idle timer is set"
        ),
        pytest.param(
            [OK, HOLD], {"first_content_timeout_s": 0.1}, "no first content within 0.1 s", id="no content"
        ),
        pytest.param(
            [OK, text_chunk("a"), HOLD],
            {"first_content_timeout_s": 30, "idle_timeout_s": 0.1},
            "no content within 0.1 s (idle_timeout_s)",
            id="silence after text",
        ),
        pytest.param(
            [OK, text_chunk("a"), *([b": keep-alive\n\n", 0.02] * 100)],
            {"idle_timeout_s": 0.1},
            "no content within 0.1 s",
            id="keepalives do not count",
        ),
        pytest.param(
            [OK, *([b'data: {"choices":[]}\n\n', 0.02] * 100)],
            {"idle_timeout_s": 0.1},
            "no first content within 0.1 s",
            id="empty frames do not count",
        ),
    ],
)
def test_silence_is_a_stall_by_name(
    peer: Start, pieces: list[Any], fields: dict[str, Any], words: str
) -> None:
    failure = last(asked(peer(pieces), **fields))
    assert failure.code == "provider_stalled"
    assert words in failure.message


def test_the_ping_of_messages_does_not_count(peer: Start) -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    failure = last(asked(peer([OK, *([ping, 0.02] * 100)]), "anthropic", idle_timeout_s=0.1))
    assert failure.code == "provider_stalled"


def test_content_starts_the_timer_anew(peer: Start) -> None:
    paced = [piece for _ in range(10) for piece in (text_chunk("a"), 0.04)]
    assert summed(asked(peer([OK, *paced, DONE]), idle_timeout_s=0.25))["text"] == "a" * 10


def test_pieces_of_a_calls_arguments_are_content(peer: Start) -> None:
    def piece(arguments: str, **first: Any) -> bytes:
        call = {"index": 0, "function": {"arguments": arguments, **first}}
        return b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"

    paced = [part for _ in range(10) for part in (piece("1"), 0.04)]
    server = peer([OK, piece('{"a":', name="add"), *paced, piece("}"), DONE])
    assert summed(asked(server, idle_timeout_s=0.25))["calls"] == [["add", {"a": 1111111111}]]


def test_progress_of_prompt_reading_is_told_and_starts_the_timer_anew(peer: Start) -> None:
    paced: list[Any] = []
    for read in range(10):
        paced += [b'data: {"choices":[],"prompt_progress":{"total":10,"processed":%d}}\n\n' % read, 0.04]
    events = list(asked(peer([OK, *paced, text_chunk("a"), DONE]), idle_timeout_s=0.25))
    assert summed(events)["text"] == "a"
    assert events[3] == Status("reading_prompt", "Reading the prompt: 3 of 10 tokens")


def test_a_model_that_loads_is_told_and_waited_for(peer: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timothy.providers.ollama.Driver.slow_start_s", 0.05)
    gate = threading.Event()
    body = b'{"message":{"content":"a"}}\n{"done":true,"done_reason":"stop"}\n'
    events = asked(peer([gate, b"HTTP/1.1 200 OK\r\n\r\n" + body]), "ollama")
    assert next(events) == Status("loading_model", "The model is being loaded")
    gate.set()
    assert summed(events)["text"] == "a"


# --- cancel -------------------------------------------------------------------------------------------------


def cancelled_after(events: Any, cancel: Cancel, ready: Callable[[], Any]) -> tuple[dict[str, Any], float]:
    """What comes of an attempt that is cancelled once it is `ready`, and the seconds from then to its end."""
    at: list[float] = []

    def act() -> None:
        ready()
        at.append(time.monotonic())
        cancel.cancel()

    thread = threading.Thread(target=act)
    thread.start()
    got = summed(events)
    seconds = time.monotonic() - at[0]
    thread.join()
    return got, seconds


def test_a_cancel_while_it_connects_ends_it_at_once() -> None:
    listener, waiting = crowded()
    cancel = Cancel()
    events = driver("openai", f"http://127.0.0.1:{listener.getsockname()[1]}/v1").stream(ASKED, cancel)
    got, seconds = cancelled_after(events, cancel, lambda: time.sleep(0.05))
    assert got["code"] == "stopped" and seconds < AT_ONCE_S
    for one in [listener, *waiting]:
        one.close()


@pytest.mark.parametrize("wire", ["openai", "anthropic", "ollama"])
def test_a_cancel_before_the_headers_ends_it_at_once_and_the_provider_sees_it(peer: Start, wire: str) -> None:
    server, cancel = peer([HOLD]), Cancel()
    events = driver(wire, server.url(wire)).stream(ASKED, cancel)
    got, seconds = cancelled_after(events, cancel, lambda: server.asked.wait(5))
    assert got["code"] == "stopped" and seconds < AT_ONCE_S
    assert server.left.wait(AT_ONCE_S)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("secure", [False, True])
def test_a_cancel_in_text_ends_it_at_once_and_the_provider_sees_it(
    peer: Start, authority: trustme.CA, secure: bool
) -> None:
    server, cancel = peer([OK, text_chunk("a"), HOLD], tls=served_by(authority) if secure else None), Cancel()
    events = driver("openai", server.url()).stream(ASKED, cancel)
    assert next(events) == TextDelta("a")
    got, seconds = cancelled_after(events, cancel, lambda: time.sleep(0.05))
    assert got["code"] == "stopped" and seconds < AT_ONCE_S
    assert server.left.wait(AT_ONCE_S)


def test_a_cancel_during_a_handshake_ends_it_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cancel = Cancel()
        events = driver("openai", f"https://127.0.0.1:{listener.getsockname()[1]}/v1").stream(ASKED, cancel)
        got, seconds = cancelled_after(events, cancel, lambda: time.sleep(0.1))
    assert got["code"] == "stopped" and seconds < AT_ONCE_S


def test_a_cancel_ends_a_stream_that_never_pauses(peer: Start) -> None:
    server, cancel = peer([OK, *[text_chunk("a") * 1000] * 2000]), Cancel()
    events = driver("openai", server.url()).stream(ASKED, cancel)
    next(events)
    got, seconds = cancelled_after(events, cancel, lambda: time.sleep(0.02))
    assert got["code"] == "stopped" and seconds < AT_ONCE_S
    assert server.over.wait(AT_ONCE_S)  # although it was blocked in a write


def test_an_iterator_that_is_closed_closes_the_connection(peer: Start) -> None:
    server = peer([OK, text_chunk("a"), HOLD])
    events = asked(server)
    assert next(events) == TextDelta("a")
    events.close()
    assert server.left.wait(AT_ONCE_S)


def test_the_connection_is_closed_after_the_last_event(peer: Start) -> None:
    server = peer([OK, text_chunk("a"), DONE, HOLD])
    assert summed(asked(server))["terminal"] == "done"
    assert server.left.wait(AT_ONCE_S)


def test_a_loop_that_always_finds_bytes_lets_others_run(peer: Start) -> None:
    server, turns, over = peer([OK, *[text_chunk("a") * 1000] * 300, DONE]), [0], threading.Event()

    def other() -> None:
        while not over.is_set():
            turns[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    began = time.monotonic()
    assert len(summed(asked(server))["text"]) == 300_000
    seconds = time.monotonic() - began
    over.set()
    thread.join()
    assert turns[0] > seconds / 0.1


# --- what a provider lacks ----------------------------------------------------------------------------------


def refusal(message: str) -> bytes:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
    return b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def test_a_provider_that_knows_no_usage_in_streams_is_asked_without_and_remembered(peer: Start) -> None:
    good = [OK + text_chunk("a") + DONE]
    server = peer([refusal("Unrecognized request argument supplied: stream_options")], good, good)
    made = driver("openai", server.url())
    assert summed(made.stream(ASKED, Cancel()))["text"] == "a"
    assert summed(made.stream(ASKED, Cancel()))["text"] == "a"
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


def test_a_provider_that_wants_the_new_name_of_the_limit_gets_it(peer: Start) -> None:
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server = peer([refusal(message)], [OK + text_chunk("a") + DONE])
    assert summed(asked(server, max_tokens=5))["text"] == "a"
    assert server.bodies[0]["max_tokens"] == server.bodies[1]["max_completion_tokens"] == 5
    assert "max_tokens" not in server.bodies[1]


@pytest.mark.parametrize(
    "words",
    [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "Function calling: this model does not support function calling",
    ],
)
def test_a_model_without_tools_answers_without_them_and_says_so(peer: Start, words: str) -> None:
    good = [OK + text_chunk("a") + DONE]
    server = peer([refusal(words)], good, good)
    made = driver("openai", server.url())
    spec = ToolSpec("add", "Adds.", {"type": "object"})
    request = msgspec.structs.replace(ASKED, tools=(spec,))
    for _ in range(2):
        events = list(made.stream(request, Cancel()))
        assert [event.code for event in events if isinstance(event, Status)] == ["no_tools"]
        assert summed(events)["text"] == "a"
    assert ["tools" in body for body in server.bodies] == [True, False, False]


def test_a_refusal_that_no_change_helps_is_told(peer: Start) -> None:
    message = "stream_options is never right"
    server = peer([refusal(message)], [refusal(message)])
    failure = last(asked(server))
    assert failure.code == "bad_request" and message in failure.message
    assert len(server.bodies) == 2


def test_an_extra_field_goes_into_every_body(peer: Start) -> None:
    server = peer([OK + text_chunk("a") + DONE])
    known = driver("openai", server.url())
    made = OpenAi(known.settings, None, key="k", extra={"return_progress": True})  # type: ignore[arg-type]
    assert summed(made.stream(ASKED, Cancel()))["text"] == "a"
    assert server.bodies[0]["return_progress"] is True
    assert "Authorization: Bearer k" in server.heads[0]


# --- proxies and passwords ----------------------------------------------------------------------------------


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[[Peer], None]:
    def use(server: Peer) -> None:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "spared.example")

    return use


def test_the_environments_proxy_is_asked_for_the_whole_address(
    peer: Start, proxied: Callable[[Peer], None]
) -> None:
    server = peer([OK + text_chunk("a") + DONE])
    proxied(server)
    assert summed(driver("openai", "http://model.example/v1").stream(ASKED, Cancel()))["text"] == "a"
    assert server.heads[0].startswith("POST http://model.example/v1/chat/completions HTTP/1.1")
    assert "Host: model.example" in server.heads[0]


def test_this_machine_and_spared_names_are_asked_without_the_proxy(
    peer: Start, proxied: Callable[[Peer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, server = peer(), peer([OK + text_chunk("a") + DONE])
    proxied(proxy)
    assert summed(asked(server))["text"] == "a"
    monkeypatch.setattr(dial.socket, "getaddrinfo", lambda *_, **__: [])
    assert (
        last(driver("openai", "http://spared.example/v1").stream(ASKED, Cancel())).code
        == "provider_unreachable"
    )
    assert not proxy.asked.is_set()


def test_a_proxy_that_refuses_a_tunnel_is_told(proxied: Callable[[Any], None]) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
            self.line = b""
            self.thread = threading.Thread(target=self.serve)
            self.thread.start()

        def serve(self) -> None:
            with self.listener, self.listener.accept()[0] as client:
                self.line = client.recv(1000).split(b"\r\n")[0]
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    proxy = Refusing()
    proxied(proxy)
    failure = last(driver("openai", "https://model.example/v1").stream(ASKED, Cancel()))
    proxy.thread.join(5)
    assert proxy.line.startswith(b"CONNECT model.example:443")
    assert failure.code == "provider_unreachable" and "403" in failure.message


def test_a_password_in_the_address_is_sent_and_never_told(peer: Start) -> None:
    server = peer([b"HTTP/1.1 500 X\r\n\r\n"])
    base = f"http://me:se%40cret@127.0.0.1:{server.port}"
    failure = last(driver("ollama", base).stream(ASKED, Cancel()))
    assert "Authorization: Basic bWU6c2VAY3JldA==" in server.heads[0]
    assert "cret" not in failure.message


def test_an_address_of_the_new_protocol_is_dialled() -> None:
    if not socket.has_ipv6:
        pytest.fail("no IPv6 in this Python")
    failure = last(driver("openai", "http://[::1]:9/v1").stream(ASKED, Cancel()))
    assert failure.code == "provider_unreachable" and "[::1]:9" in failure.message
