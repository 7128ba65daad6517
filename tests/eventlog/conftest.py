"""A log in a file of its own, with a writer and a reader."""

import pytest

from timothy.database import FILE_NAME, open_database
from timothy.eventlog import queries
from timothy.eventlog.records import Written
from timothy.eventlog.rows import execute
from timothy.eventlog.store import Writer
from timothy.schema import migrate


class Log:
    """Writes orders; reads with a connection that cannot write."""

    def __init__(self, path):
        migrate(path)
        self.path = path
        self.database = open_database(path)
        self.writer = Writer(self.database)
        self.reader = open_database(path, read_only=True)

    def write(self, *orders):
        """All orders in one batch, and every one must be written."""
        verdicts = self.writer.commit(orders)
        assert all(isinstance(verdict, Written) for verdict in verdicts), verdicts
        return verdicts

    def try_to(self, order):
        (verdict,) = self.writer.commit([order])
        return verdict

    def rows(self, session_id="s"):
        return queries.events(self.reader, session_id, 0, 10_000)

    def kinds(self, session_id="s"):
        return [record.kind for record in self.rows(session_id)]

    def count(self, table):
        return execute(self.reader, f"SELECT COUNT(*) FROM {table}")[0][0]

    def close(self):
        self.reader.close()
        self.database.close()


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path / FILE_NAME)
    yield log
    log.close()
