"""The Python client and the example programs, against `timothy serve` and a provider that obeys."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.provider import FakeProvider
from timothy import errors
from timothy.client import Client, TurnStream
from timothy.events import Done, Error, TextDelta, TurnStarted

SCRIPTS = Path(__file__).parents[2] / "scripts"
ENTRY = '[[providers]]\nname = "{name}"\ndriver = "openai"\nmodel = "{name}"\nbase_url = "{url}"\n'
MODELS = ("normal", "held", "other")
TOKEN = "a-token-of-this-test"

pytestmark = pytest.mark.once


class RealServer:
    """`timothy serve` on a home of its own; it comes back on the same port."""

    def __init__(self, home: Path, provider: FakeProvider) -> None:
        self.provider = provider
        self._home = home
        self._port = 0
        entries = (ENTRY.format(name=name, url=provider.base_url) for name in MODELS)
        home.mkdir()
        (home / "timothy.toml").write_text("[turn]\ncheckpoint_s = 0.1\n" + "".join(entries))
        self.start()

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("timothy"))
        self._process = subprocess.Popen(
            [program, "serve", "--home", str(self._home), "--port", str(self._port)],
            env={**os.environ, "TIMOTHY_API_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        link = self._process.stdout.readline()
        self.url = link[link.index("http") : link.index("/#token=")]
        self._port = int(self.url.rpartition(":")[2])

    def end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        status = self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with FakeProvider() as provider:
        server = RealServer(tmp_path_factory.mktemp("real") / "home", provider)
        yield server
        assert server.end(signal.SIGTERM) == 0


@pytest.fixture
def client(real: RealServer) -> Client:
    return Client(real.url, TOKEN, first_delay=0.1)


@pytest.fixture
def session(client: Client) -> str:
    return client.create_session().id


def hold(real: RealServer, session: str, client: Client, tokens: int = 3) -> TurnStream:
    """A turn that has shown its text and waits."""
    real.provider.behave("held", tokens=tokens + 2, hold=tokens)
    turn = client.send(session, "Hello?", "held")
    shown = "".join(f"t{number} " for number in range(tokens))
    for _ in turn:
        if turn.text == shown:
            return turn
    raise AssertionError(f"the turn ended early: {turn.meta}")


def run(script: str, real: RealServer, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPTS / script), "--url", real.url, "--token", TOKEN, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_an_answer_is_streamed_and_stands_in_transcript_log_and_ledger(client: Client, session: str) -> None:
    with client.send(session, "Hello?", "normal") as turn:
        events = list(turn)
    assert isinstance(events[0], TurnStarted)
    assert Done("stop") in events
    assert turn.text == "t0 t1 t2 t3 t4 "
    page = client.session(session)
    assert not page.turn_active
    assert [(item["kind"], item["text"]) for item in page.items] == [
        ("user", "Hello?"),
        ("assistant", turn.text),
    ]
    assert [row.turn_id for row in client.events(session)][1:3] == [turn.turn_id] * 2
    ended = client.turn(session, turn.turn_id)
    assert (ended.outcome, ended.attempts[0].status, ended.attempts[0].model) == ("completed", "ok", "normal")
    assert turn.meta is not None
    assert (turn.meta.usage, turn.meta.provider) == (ended.usage, "normal")


def test_a_stopped_turn_ends_as_stopped_for_its_viewer(
    real: RealServer, client: Client, session: str
) -> None:
    turn = hold(real, session, client)
    answer = client.stop(session, turn.turn_id)
    assert (answer.turn_id, answer.outcome) == (turn.turn_id, "stopped")
    assert turn.wait().outcome == "stopped"
    assert isinstance(turn.terminal, Error)
    assert client.session(session).items[-1]["text"] == "t0 t1 t2 "


def test_a_second_viewer_sees_what_the_first_sees(real: RealServer, client: Client, session: str) -> None:
    first = hold(real, session, client)
    with client.watch(session) as second, client.watch(session, after=first.cursor) as third:
        real.provider.release("held")
        rest, whole, tail = list(first), list(second), list(third)
    assert whole[-len(rest) :] == rest == tail
    assert second.text == first.text == "t0 t1 t2 t3 t4 "
    assert second.turn_id == third.turn_id == first.turn_id


def test_a_send_with_the_same_key_is_one_turn(client: Client, session: str) -> None:
    key = str(uuid.uuid4())
    first = client.send(session, "Hello?", key=key)
    told = first.wait()
    second = client.send(session, "Hello?", key=key)
    again = second.wait()
    assert (again.outcome, again.usage, again.duration_ms) == (told.outcome, told.usage, told.duration_ms)
    assert (second.turn_id, second.text, second.replayed) == (first.turn_id, first.text, True)
    assert client.submit(session, "Hello?", key=key).turn_id == first.turn_id
    with pytest.raises(errors.IdempotencyMismatch):
        client.send(session, "Something else.", key=key)


def test_a_stream_goes_on_over_a_killed_server(real: RealServer, client: Client, session: str) -> None:
    turn = hold(real, session, client)
    waiting = client.session(session).turn
    assert waiting is not None
    assert waiting.id == turn.turn_id
    real.end(signal.SIGKILL)
    real.start()
    assert turn.wait().outcome == "interrupted"
    assert turn.terminal is not None
    assert turn.text == "t0 t1 t2 "
    kept = client.session(session).items[-1]
    assert kept["kind"] in ("partial", "failure")
    real.provider.release("held")
    assert client.retry(session, "again").wait().outcome == "completed"


def test_a_refused_retry_a_busy_session_and_wrong_names_are_raised_by_name(
    real: RealServer, client: Client, session: str
) -> None:
    with pytest.raises(errors.NoRetryableTurn):
        client.retry(session)
    with pytest.raises(errors.NoActiveTurn):
        client.watch(session)
    with pytest.raises(errors.NoActiveTurn):
        client.stop(session)
    with pytest.raises(errors.UnknownModel):
        client.send(session, "Hello?", "nothing")
    with pytest.raises(errors.NotFound):
        client.session("no-uuid")
    with pytest.raises(errors.BadRequest):
        client.send(session, "")
    with pytest.raises(errors.Unauthorized):
        next(Client(real.url, "wrong").sessions())
    turn = hold(real, session, client)
    with pytest.raises(errors.TurnInFlight) as busy:
        client.send(session, "And?")
    assert busy.value.details["turn_id"] == turn.turn_id
    with pytest.raises(errors.TurnMismatch):
        client.stop(session, str(uuid.uuid4()))
    with pytest.raises(errors.TurnInFlight):
        client.delete_session(session)
    client.stop(session)
    turn.close()


def test_sessions_are_listed_renamed_archived_branched_and_deleted(client: Client) -> None:
    session = client.create_session("Tea and biscuits")
    client.send(session.id, "Hello?").wait()
    assert session.id in [found.id for found in client.sessions("biscuits")]
    assert client.rename(session.id, "Coffee").title == "Coffee"
    assert client.archive(session.id).archived
    copy = client.branch(session.id, 4)
    assert [row.kind for row in client.events(copy.id)][:2] == [
        row.kind for row in client.events(session.id)
    ][:2]
    client.delete_session(session.id)
    with pytest.raises(errors.NotFound):
        client.session(session.id)


def test_models_providers_health_and_open_permissions_are_told(client: Client) -> None:
    assert [row.id for row in client.models()] == list(MODELS)
    assert [row.name for row in client.providers()] == list(MODELS)
    assert client.health().status == "ok"
    assert client.pending() == []


def test_ask_watch_and_stop_work_from_three_processes(real: RealServer, client: Client, session: str) -> None:
    real.provider.behave("held", tokens=5, hold=3)
    asking = run("ask.py", real, "--session", session, "--model", "held", "Hello?")
    assert asking.stderr is not None
    assert asking.stderr.readline() == f"session {session}\n"
    real.provider.wait_request("held", len(real.provider.requests("held")) or 1)
    while not client.session(session).turn_active:
        assert asking.poll() is None
    watching = run("watch.py", real, session)
    with client.watch(session) as turn:
        while turn.text != "t0 t1 t2 ":
            assert isinstance(next(iter(turn)), object)
    assert watching.stdout is not None
    assert watching.stdout.read(9) == "t0 t1 t2 "
    stopping = run("stop.py", real, session)
    assert stopping.communicate(timeout=20)[0].endswith(": stopped\n")
    text, words = asking.communicate(timeout=20)
    assert (asking.returncode, text) == (1, "t0 t1 t2 ")
    assert "[stopped: " in words
    assert "[error " in watching.communicate(timeout=20)[1]
    assert watching.returncode == 0


def test_an_attached_file_stands_in_the_log_by_its_hash(client: Client, session: str) -> None:
    note = {"name": "note.txt", "media_type": "text/plain", "text": "Buy tea."}
    assert client.send(session, "What do I need?", attachments=[note]).wait().outcome == "completed"
    kept = client.session(session).items[0]["attachments"]
    assert [(entry["name"], len(entry["sha256"])) for entry in kept] == [("note.txt", 64)]


def test_text_deltas_are_the_whole_text(client: Client, session: str) -> None:
    turn = client.send(session, "Zwölf Boxkämpfer \u2028 jagen", "normal")
    assert "".join(event.text for event in turn if isinstance(event, TextDelta)) == turn.text
    assert client.session(session).items[0]["text"] == "Zwölf Boxkämpfer \u2028 jagen"
