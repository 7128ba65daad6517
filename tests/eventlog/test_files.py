"""An attached file stays as long as a log names it, or as long as somebody is about to; then it goes."""

import hashlib
import threading
import time

import pytest

from tests.eventlog.orders import begin, create, end, fresh
from timothy.eventlog import files
from timothy.eventlog.records import CopySession, DeleteSession


def put(home, content):
    digest = hashlib.sha256(content).hexdigest()
    files.put(home, digest, [content[:3], content[3:]])
    return digest


def say(log, session_id, *digests):
    """A new session with one message that names these files."""
    kept = [{"name": "a", "media_type": "text/plain", "bytes": 1, "sha256": digest} for digest in digests]
    turn = fresh("turn")
    payload = {"text": "look", "attachments": kept}
    log.write(create(session_id), begin(turn, session_id, payload=payload), end(turn, session_id))


def delete(log, session_id):
    log.write(DeleteSession(append_id=fresh(), session_id=session_id))


def test_a_file_is_whole_or_not_there(tmp_path):
    digest = put(tmp_path, b"whole")
    assert files.stored(tmp_path) == {digest: 5}
    with pytest.raises(files.Damaged):
        files.put(tmp_path, "0" * 64, [b"other"])
    with pytest.raises(files.Damaged):
        files.put(tmp_path, "../timothy.db", [b""])
    assert [entry.name for entry in files.folder(tmp_path).iterdir()] == [digest]


def test_the_same_file_sent_by_many_at_once_is_stored_for_all_of_them(tmp_path):
    content, failed = b"x" * 200_000, []
    begun = threading.Barrier(8)

    def send():
        begun.wait()
        try:
            put(tmp_path, content)
        except OSError as error:
            failed.append(error)

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert failed == []
    assert [entry.read_bytes() for entry in files.folder(tmp_path).iterdir()] == [content]


def test_a_home_without_files_has_none_and_nothing_to_tidy(tmp_path):
    assert files.stored(tmp_path) == {}
    assert files.tidy(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_what_no_log_names_goes_and_what_one_names_stays(log, tmp_path):
    named, forgotten = put(tmp_path, b"named"), put(tmp_path, b"forgotten")
    (files.folder(tmp_path) / f"{'1' * 64}.a_7b.new").write_bytes(b"half")  # its process died
    (files.folder(tmp_path) / "mine.txt").write_bytes(b"not ours")
    say(log, "s", named)
    assert files.tidy(tmp_path) == sorted([f"{'1' * 64}.a_7b.new", forgotten])
    assert files.tidy(tmp_path) == []
    assert sorted(entry.name for entry in files.folder(tmp_path).iterdir()) == sorted([named, "mine.txt"])


def test_a_file_goes_with_the_last_session_that_names_it(log, tmp_path):
    shared, own = put(tmp_path, b"shared"), put(tmp_path, b"own")
    say(log, "s", shared, own)
    say(log, "t", shared)
    log.write(CopySession(append_id=fresh(), session_id="branch", source_id="s", seq=2, title=None))
    delete(log, "s")
    assert files.tidy(tmp_path) == []
    delete(log, "branch")
    assert files.tidy(tmp_path) == [own]
    delete(log, "t")
    assert files.tidy(tmp_path) == [shared]


def test_nothing_goes_while_somebody_holds(log, tmp_path):
    digest = put(tmp_path, b"about to be sent")
    with files.hold(tmp_path), files.hold(tmp_path):
        assert files.tidy(tmp_path) == []
    assert files.tidy(tmp_path) == [digest]


def test_a_log_that_cannot_be_read_costs_no_file(log, tmp_path):
    digest = put(tmp_path, b"named")
    log.database.execute_sql("DROP TRIGGER rows_never_change")
    say(log, "s", digest)
    damaged = "UPDATE session_events SET payload = '{\"attachments\"' WHERE kind = 'user_message'"
    log.database.execute_sql(damaged)
    with pytest.raises(Exception, match="malformed JSON"):
        files.tidy(tmp_path)
    assert list(files.stored(tmp_path)) == [digest]


def test_of_sends_deletes_and_tidyings_at_once_no_named_file_is_lost(log, tmp_path):
    """The senders use the same few contents again and again, so that files go and come back."""
    contents = [b"one", b"two", b"three"]
    over, tidied, gone = threading.Event(), threading.Event(), []

    def tidy():
        while not over.is_set():
            gone.extend(files.tidy(tmp_path))
            tidied.set()
            time.sleep(0)  # the other may go on, also where threads are greenlets

    tidier = threading.Thread(target=tidy)
    tidier.start()
    for number in range(20):
        content = contents[number % 3]
        with files.hold(tmp_path):
            digest = hashlib.sha256(content).hexdigest()
            if digest not in files.stored(tmp_path):
                put(tmp_path, content)
            say(log, f"s{number}", digest)
        assert digest in files.stored(tmp_path)
        tidied.clear()
        assert tidied.wait(10)
        assert digest in files.stored(tmp_path)
        delete(log, f"s{number}")
    over.set()
    tidier.join()
    assert len(gone) > 3 and log.count("sessions") == 0
