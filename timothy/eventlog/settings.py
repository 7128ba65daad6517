"""What a person set while the server ran: named values beside the log."""

from typing import Any

import peewee

from timothy.database import Settings
from timothy.eventlog.records import ChangeSettings, Verdict, Written


def stored(database: peewee.SqliteDatabase) -> dict[str, str]:
    """Every value that is set, by its key."""
    return dict(Settings.select(Settings.key, Settings.value).tuples().execute(database))


def change(database: peewee.SqliteDatabase, order: ChangeSettings) -> Verdict:
    """Set and unset what the order names; the rest stays. Part of the writer's transaction."""
    settings: Any = Settings
    for key, value in order.values.items():
        if value is None:
            settings.delete().where(settings.key == key).execute(database)
        else:
            settings.replace(key=key, value=value).execute(database)
    return Written()
