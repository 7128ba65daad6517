"""`timothy doctor`, `backup`, `restore`, `export`, `import` and `usage`."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
import msgspec

from timothy.cli import home_option
from timothy.errors import ConfigError

if TYPE_CHECKING:
    import peewee

    from timothy.gateway.probe import ProbeResult
    from timothy.tools.mcp import ServerStatus
    from timothy.upkeep.doctor import Finding

TOOL_SERVERS_S = 20.0
MORE_CHECKS = 2  # of the file itself, and of the attached files
HEALTHY, BROKEN, CANNOT_CHECK = 0, 1, 2


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--providers", "ask_providers", is_flag=True, help="Ask every provider one question, too.")
@home_option
def doctor(as_json: bool, ask_providers: bool, home: Path) -> None:
    """Check the installation and every promise about the log.

    With --providers a home without a database is one notice: the providers are asked all the same. With
    GATEWAY_URL set, they are the gateway's.

    Exit status 0: healthy; 1: a promise is broken, or a provider failed; 2: there is nothing to check.
    """
    from timothy.upkeep.doctor import Finding, NoDatabase, examine

    try:
        findings = examine(home)
    except NoDatabase as error:
        if not ask_providers:
            told = msgspec.json.encode({"error": str(error)}).decode() if as_json else str(error)
            click.echo(told, err=not as_json)
            sys.exit(CANNOT_CHECK)
        findings = [Finding("database", "notice", str(home), f"{error}; the first start makes it")]
    findings += _surroundings(home)
    results = _asked(home) if ask_providers else []
    _show(findings, results, as_json, ask_providers)
    broken = any(finding.level == "broken" for finding in findings)
    sys.exit(HEALTHY if not broken and all(result.ok for result in results) else BROKEN)


def _asked(home: Path) -> list[ProbeResult]:
    """Every provider's answer, asked by the gateway where there is a separate one."""
    from timothy.config import load
    from timothy.gateway.open import URL_VARIABLE, open_gateway
    from timothy.gateway.probe import probe, probe_through

    config = load(home)
    if not os.environ.get(URL_VARIABLE):
        return probe(config, home)
    with closing(open_gateway(config, home)) as gateway:
        return probe_through(gateway)


def _show(findings: list[Finding], results: list[ProbeResult], as_json: bool, ask_providers: bool) -> None:
    from timothy.gateway.open import URL_VARIABLE
    from timothy.gateway.probe import report
    from timothy.upkeep.promises import CHECKS

    broken = sum(finding.level == "broken" for finding in findings)
    gateway = os.environ.get(URL_VARIABLE) if ask_providers else None
    if as_json:
        asked = {"providers": results, "gateway": gateway or None} if ask_providers else {}
        click.echo(msgspec.json.encode({"healthy": not broken, "findings": findings, **asked}))
        return
    for finding in findings:
        click.echo(f"{finding.level}: {finding.check}: {finding.row}: {finding.message}")
    checks = f"{len(CHECKS) + MORE_CHECKS} checks"
    if not any(finding.check == "database" for finding in findings):
        click.echo(f"{checks}, {broken} broken" if broken else f"healthy: {checks}")
    if gateway:
        click.echo(f"asked through the gateway at {gateway}:")
    if ask_providers:
        click.echo(report(results))


def _surroundings(home: Path) -> list[Finding]:
    """Notices about the configuration and the MCP servers that it names: each is started to see."""
    from timothy.config import load
    from timothy.tools.mcp import Servers
    from timothy.upkeep.doctor import Finding, tool_servers

    try:
        settings = load(home).mcp
    except ConfigError as error:
        return [Finding("configuration", "notice", str(home), error.message)]
    servers = Servers(settings, home)
    servers.start()
    deadline = time.monotonic() + TOOL_SERVERS_S
    while not all(map(_settled, statuses := servers.status())) and time.monotonic() < deadline:
        time.sleep(0.1)
    found = tool_servers(statuses)
    servers.close()
    return found


def _settled(server: ServerStatus) -> bool:
    """Whether it is known how the server does: it is ready, or it was started and did not stay."""
    from timothy.tools.mcp import MISSING

    return server.state == "ready" or server.error == MISSING or (server.starts > 0 and bool(server.error))


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@home_option
def backup(file: Path, home: Path) -> None:
    """Copy the whole log and its attached files into FILE, also while turns run."""
    from timothy.upkeep import copies

    copied = copies.backup(home, file)
    click.echo(f"{file}: {copied.size:,} bytes, with {copied.files} attached files")
    for digest in copied.lost:
        click.echo(f"not in it: the attached file {digest} is missing or damaged in the home", err=True)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@home_option
def restore(file: Path, home: Path) -> None:
    """Put the backup FILE in the log's place, its attached files in the home; the server must not run."""
    from timothy.upkeep import copies

    aside = copies.restore(home, file)
    click.echo(f"restored {file}" + (f"; the log that was there is now {aside}" if aside else ""))


@click.command()
@click.argument("session")
@click.option(
    "--format", "form", type=click.Choice(["markdown", "jsonl"]), default="markdown", show_default=True
)
@click.option(
    "--output", type=click.File("w", encoding="utf-8"), default="-", help="A file; by default the screen."
)
@home_option
def export(session: str, form: str, output: IO[str], home: Path) -> None:
    """Write one session as Markdown, or as JSON lines for `timothy import`."""
    from timothy.eventlog import queries
    from timothy.upkeep.export import exported

    with _reading(home) as database:
        row = queries.session(database, session)
        if row is None:
            raise click.ClickException(f"there is no session {session}")
        text = exported(database, row, form)
    output.write(text)


@click.command(name="import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@home_option
def import_session(file: IO[str], home: Path) -> None:
    """Bring in FILE (JSON lines from `timothy export`) as a new session, also beside a running server."""
    import peewee

    from timothy.database import FILE_NAME, open_database
    from timothy.eventlog import attachments, files
    from timothy.eventlog.records import Refused
    from timothy.eventlog.store import Writer
    from timothy.home import prepare
    from timothy.schema import migrate
    from timothy.upkeep.export import parse

    try:
        order = parse(file)
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file.name} is no text in UTF-8: {error}") from error
    prepare(home)
    try:
        migrate(home / FILE_NAME)
        # held, as it may name files that no other session names any more
        with closing(open_database(home / FILE_NAME)) as database, files.hold(home):
            (verdict,) = Writer(database).commit([order])
    except (sqlite3.Error, peewee.PeeweeException, OSError) as error:
        raise click.ClickException(f"nothing was imported, the log cannot be written: {error}") from error
    if isinstance(verdict, Refused):
        raise click.ClickException(f"the log refused it: {verdict.message}")
    click.echo(f"imported {len(order.records)} rows as session {order.session_id}")
    for digest in sorted(attachments.named(order.records) - files.stored(home).keys()):
        click.echo(f"its attached file {digest} is not in {home}: an export does not carry it", err=True)


@click.command()
@click.option(
    "--group", type=click.Choice(["day", "provider", "model", "session"]), default="day", show_default=True
)
@click.option("--from", "start", help="The first day or moment (UTC).")
@click.option("--to", "end", help="The last day, or the moment where to end.")
@home_option
def usage(group: str, start: str | None, end: str | None, home: Path) -> None:
    """Print what the providers were asked and what it cost, as a table."""
    from timothy import ledger
    from timothy.config import load

    bounds = {"start": ledger.bound("--from", start), "end": ledger.bound("--to", end)}
    with _reading(home) as database:
        sums = ledger.usage(database, group=group, **bounds)
    click.echo(ledger.table(sums, load(home).usage.currency))


@contextmanager
def _reading(home: Path) -> Iterator[peewee.SqliteDatabase]:
    """The log of `home`. Raises click.ClickException when there is none, or what is there cannot be read."""
    import peewee

    from timothy.database import FILE_NAME, open_database

    path = home / FILE_NAME
    if not path.is_file():
        raise click.ClickException(f"there is no database at {path}")
    try:
        with closing(open_database(path, read_only=True)) as database:
            yield database
    except peewee.PeeweeException as error:
        raise click.ClickException(f"{path} cannot be read: {error}; see `timothy doctor`") from error
