"""The fake provider keeps its own promises, so that what others assert on it means something."""

import http.client
import json
import socket
import subprocess
import sys
import time

import pytest

from tests.fakes.provider import Behaviour, FakeProvider, parse


@pytest.fixture
def provider():
    with FakeProvider() as running:
        yield running


def ask(provider, model, messages=()):
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=5)
    body = {"model": model, "stream": True, "messages": list(messages)}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    return connection, connection.getresponse()


def frames(response):
    lines = [line[6:] for line in response.read().split(b"\n") if line.startswith(b"data: ")]
    return [line if line == b"[DONE]" else json.loads(line) for line in lines]


def text(received):
    deltas = [frame["choices"][0]["delta"] for frame in received if frame != b"[DONE]" and frame["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_a_plain_answer_has_text_a_finish_reason_usage_and_done(provider):
    connection, response = ask(provider, "normal?tokens=3")
    received = frames(response)
    assert text(received) == "t0 t1 t2 "
    assert received[-3]["choices"][0]["finish_reason"] == "stop"
    assert received[-2]["usage"]["completion_tokens"] == 3
    assert received[-1] == b"[DONE]"
    assert provider.wait_ended("normal?tokens=3").ended == "complete"
    connection.close()


def test_a_hold_lasts_until_it_is_released(provider):
    provider.behave("m", tokens=3, hold=1)
    connection, response = ask(provider, "m")
    while b"t0" not in (line := response.readline()):
        assert line
    assert not provider.requests("m")[0].done.is_set()
    provider.release("m")
    assert b"[DONE]" in response.read()
    connection.close()


@pytest.mark.parametrize("hold", ["headers", 0, 1, "end"])
def test_a_client_that_goes_away_is_noticed_at_once(provider, hold):
    provider.behave("m", tokens=2, hold=hold)
    body = json.dumps({"model": "m"}).encode()
    client = socket.create_connection(("127.0.0.1", provider.port))
    client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    provider.wait_request("m")
    left = time.monotonic()
    client.close()
    entry = provider.wait_ended("m")
    assert entry.ended == "client_closed"
    assert entry.ended_at - left < 0.25


def test_a_cut_is_a_clean_end_without_a_terminal(provider):
    connection, response = ask(provider, "cut?tokens=2")
    received = frames(response)
    assert text(received) == "t0 t1 "
    assert b"[DONE]" not in received
    connection.close()


def test_a_reset_breaks_the_body_in_mid_chunk(provider):
    connection, response = ask(provider, "reset?tokens=2")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        response.read()
    connection.close()


def test_a_refusal_has_its_status_body_and_retry_after(provider):
    provider.behave("m", status=503, message="full", retry_after="7")
    connection, response = ask(provider, "m")
    assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert json.loads(response.read())["error"]["message"] == "full"
    connection.close()


def test_a_tool_call_is_followed_by_text_that_quotes_its_result(provider):
    connection, response = ask(provider, "tool")
    first = frames(response)
    assert first[-3]["choices"][0]["finish_reason"] == "tool_calls"
    connection.close()
    connection, response = ask(provider, "tool", [{"role": "tool", "content": "noon"}])
    assert text(frames(response)) == "the tool said noon"
    connection.close()


def test_behaviours_are_used_up_one_a_request_and_the_last_one_stays(provider):
    provider.behave("m", "broken", "normal")
    statuses = []
    for _ in range(3):
        connection, response = ask(provider, "m")
        statuses.append(response.status)
        response.read()
        connection.close()
    assert statuses == [500, 200, 200]


def test_a_model_name_spells_a_behaviour():
    assert parse("slow?tokens=7&hold=headers&delay_s=0.5") == Behaviour(tokens=7, hold="headers", delay_s=0.5)


def test_it_runs_as_a_process_with_a_control_api():
    command = [sys.executable, "-m", "tests.fakes.provider", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline().rsplit(":", 1)[1].split("/")[0])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            order = {"model": "m", "behaviours": [{"status": 418, "body": "teapot"}]}
            connection.request("POST", "/control", json.dumps(order))
            connection.getresponse().read()
            connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m"}))
            assert connection.getresponse().read() == b"teapot"
            connection.request("GET", "/control/log")
            assert [row["ended"] for row in json.loads(connection.getresponse().read())] == ["status"]
            connection.close()
        finally:
            process.kill()
