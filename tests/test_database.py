"""How the file is opened: durable for the writer, closed to a reader's hand, patient for a moment."""

import sqlite3

import peewee
import pytest

from timothy import database
from timothy.database import FILE_NAME, open_database
from timothy.schema import migrate


@pytest.fixture
def path(tmp_path):
    return tmp_path / FILE_NAME


def test_a_writer_is_durable_and_a_reader_cannot_write(path):
    migrate(path)
    writer, reader = open_database(path), open_database(path, read_only=True)
    assert writer.pragma("journal_mode") == "wal"
    assert writer.pragma("synchronous") == 2
    with pytest.raises(peewee.OperationalError, match="readonly"):
        reader.execute_sql("DELETE FROM sessions")
    writer.close()
    reader.close()


def test_a_lock_of_another_is_waited_for_not_longer_than_a_try_may_take(path, monkeypatch):
    migrate(path)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    holder, writer = sqlite3.connect(path, isolation_level=None), open_database(path)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(peewee.OperationalError, match="locked"):
        writer.execute_sql("DELETE FROM sessions")
    holder.close()
    writer.close()
