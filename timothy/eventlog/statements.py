"""Queries that every turn needs, compiled to SQL once: building one costs more than running it."""

from typing import Any

import peewee


class Slot(str):
    """The name of a value that a statement is given at each run."""


def slots(table: Any, *names: str) -> dict[Any, Any]:
    """The named columns of `table`, each with a slot of its own name."""
    return {getattr(table, name): slot(name) for name in names}


def slot(name: str) -> Any:
    """A place in a query for the value `name`."""
    return peewee.Value(Slot(name), converter=False)


class Statement:
    """One query, compiled at its first run."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._sql = ""
        self._parameters: list[Any] = []

    def run(self, database: peewee.SqliteDatabase, **values: Any) -> list[tuple[Any, ...]]:
        """The rows that the query gives with these values in its slots."""
        return list(self._cursor(database, values).fetchall())

    def rows(self, database: peewee.SqliteDatabase, **values: Any) -> list[dict[str, Any]]:
        """The same, each row by its columns' names."""
        cursor = self._cursor(database, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _cursor(self, database: peewee.SqliteDatabase, values: dict[str, Any]) -> Any:
        if not self._sql:
            self._sql, self._parameters = self._query.bind(database).sql()
        filled = [values[part] if isinstance(part, Slot) else part for part in self._parameters]
        connection: Any = database
        return connection.execute_sql(self._sql, filled)
