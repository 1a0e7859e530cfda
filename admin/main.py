"""rainbow-admin: the command line of the admin service."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from getpass import getuser
from typing import Any

import click
import yaml
from sqlalchemy.exc import SQLAlchemyError

from admin import __version__
from admin.configuration import load_settings
from admin.core.changes import Authorship
from admin.core.problems import Invalid
from admin.core.provenance import Actor
from admin.core.quantities import parse_age
from admin.errors import AlreadyExists, CannotStart, RainbowError, UserNotFound
from admin.store.schema import current_revision, latest_revision

_CONFIG_VARIABLE = "RAINBOW_ADMIN_CONFIG"
_PROGRESS_SECONDS = 5


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that opens the database."""
    config = click.option(
        "--config",
        "config_file",
        envvar=_CONFIG_VARIABLE,
        metavar="FILE",
        help=f"Configuration file (or {_CONFIG_VARIABLE}); every key has a default.",
    )
    database = click.option(
        "--database",
        metavar="URL",
        help="sqlite:///file.db or postgresql+psycopg://user@host/name. By default an SQLite file in the user's "
        "data directory.",
    )
    return config(database(command))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rainbow-admin")
def cli() -> None:
    """The Rainbow admin: stores settings by scope, resolves them, and explains the result.

    Start it with `rainbow-admin serve`; talk to it with `rainbowctl`.
    """


@cli.command()
@_common
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for a free one.  [default: 8088]")
@click.option("--workers", type=click.IntRange(1, 64), help="Processes that answer requests.")
@click.option(
    "--apiTokenFile",
    "--api-token-file",
    "api_token_file",
    metavar="FILE",
    help="File with the bearer token that clients must send; needed to listen beyond loopback.",
)
@click.option(
    "--serveOpenly",
    "--serve-openly",
    "serve_openly",
    is_flag=True,
    default=None,
    help="Serve beyond loopback without users and without a token: everybody may do everything.",
)
@click.option(
    "--registrationSecretFile",
    "--registration-secret-file",
    "registration_secret_file",
    metavar="FILE",
    help="File with the secret that agents register with; without one none can.",
)
@click.option("--tlsCertFile", "--tls-cert-file", "tls_cert_file", metavar="FILE", help="PEM certificate, for https.")
@click.option("--tlsKeyFile", "--tls-key-file", "tls_key_file", metavar="FILE", help="PEM key of the certificate.")
@click.option(
    "--log-format", "--logFormat", type=click.Choice(["json", "text"]), help="One JSON object a line, or text."
)
def serve(config_file: str | None, **flags: Any) -> None:
    """Run the admin.

    An empty database is set up first. Every option has a configuration key, and the option wins.

    \b
    Examples:
      rainbow-admin serve
      rainbow-admin serve --database postgresql+psycopg://rainbow@db/rainbow --host 0.0.0.0 --apiTokenFile token
    """
    from admin.server.serving import serve as run

    run(config_file, _overrides(**flags))


@cli.command("migrate")
@_common
@click.option("--to", default="head", metavar="REVISION", help="Schema revision to go to; the newest by default.")
def migrate_command(config_file: str | None, database: str | None, to: str) -> None:
    """Bring the database's schema to the revision that this version works with.

    Stop the admins that use the database first, and back it up.
    """
    from admin.server.startup import migrate_database, open_app

    settings = load_settings(config_file, os.environ, _overrides(database=database))
    app = open_app(settings)
    engine = app.extensions["rainbow"].database.engine
    before = current_revision(engine)
    migrate_database(app, to)
    click.echo(f"schema {before or 'empty'} -> {current_revision(engine) or 'empty'} (newest: {latest_revision()})")


@cli.command("config")
@_common
def config_command(config_file: str | None, database: str | None) -> None:
    """Check the configuration and print the one in force, every default included."""
    settings = load_settings(config_file, os.environ, _overrides(database=database))
    yaml.safe_dump(settings.shown_document, sys.stdout, sort_keys=False, allow_unicode=True)


def _age(name: str, rows: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        f"--{name}", metavar="AGE", help=f"Delete {rows} longer ago than this: 90d, 12h (or retention.{name})."
    )


@cli.command("prune")
@_common
@_age("executions", "executions that ended, with all that is theirs,")
@_age("events", "events of executions that ended, and events of clusters that happened,")
@_age("logs", "logs and output files of executions that ended")
@_age("revisions", "revisions, but for the last one, that were made")
@_age("audit", "audit events that happened")
@_age("descriptions", "descriptions of clusters, but for the last one of each, that were made")
@_age("bids", "rounds of bids that were decided")
@_age("namespaces", "events of the objects of namespaces that happened")
@click.option("--dryRun", "--dry-run", "dry_run", is_flag=True, help="Count what would be deleted, and delete nothing.")
@click.option(
    "--acceptClock",
    "--accept-clock",
    "accepts_clock",
    is_flag=True,
    help="Trust the clock, where pruning is suspended because it has jumped by more than a day.",
)
def prune_command(config_file: str | None, dry_run: bool, accepts_clock: bool, **flags: Any) -> None:
    """Delete executions, events, logs, revisions, audit events, descriptions, bids and events of namespaces
    that are old enough.

    The ages come from the options, else from the configuration; what neither names is kept. Executions are deleted
    only once they have ended. Admins may run meanwhile. The command may be stopped at any time and started again,
    and prints how many rows of each table it has deleted.

    \b
    Examples:
      rainbow-admin prune --config rainbow.yaml --dryRun
      rainbow-admin prune --executions 90d --logs 30d --revisions 365d
      rainbow-admin prune --acceptClock
    """
    from admin.server.startup import check_schema, driver_reason, open_app
    from admin.services.clocks import accept_clock, follow_clock
    from admin.services.retention import prune

    settings = load_settings(config_file, os.environ, _overrides(**flags))
    if settings.retention.is_for_ever and not accepts_clock:
        raise click.UsageError(
            "Nothing to prune: everything is kept for ever. Set how long to keep it with options such as "
            "--executions 90d --logs 30d, or under retention in the configuration."
        )
    app = open_app(settings)
    check_schema(app)
    context = app.extensions["rainbow"]
    try:
        if accepts_clock:
            clock, _ = accept_clock(context, by=Actor(claimed_by=_local_user()))
            click.echo(f"the clock is trusted: {clock.time.isoformat(timespec='seconds')}")
        now = context.clock()
        problem = None if dry_run else follow_clock(context, now, 0)
        if problem is not None:
            raise CannotStart(problem)
        steps = prune(context, settings.retention, now=now, dry_run=dry_run, claimed_by=_local_user())
        deleted = _total(steps)
    except SQLAlchemyError as error:
        raise CannotStart(
            f"The database failed: {driver_reason(error)}. What is deleted stays so; run it again for the rest."
        ) from error
    for table, count in sorted(deleted.items()):
        if count:
            click.echo(f"{table:<20}{count:>12}")
    click.echo(f"{'would be deleted' if dry_run else 'deleted':<20}{deleted.total():>12}")


@cli.command("reconcile")
@_common
@click.argument("clusters", nargs=-1, metavar="[CLUSTER]...")
@click.option("--all", "every", is_flag=True, help="Every cluster that is not reconciled yet.")
def reconcile_command(config_file: str | None, database: str | None, clusters: tuple[str, ...], every: bool) -> None:
    """Count clusters as reconciled with a database that was restored from a backup.

    An admin finds out by itself that its database was restored, and gives nothing away and ends nothing until the
    agent of every cluster has synced; `rainbowctl get reconciliation` lists those that are missing. Name the clusters
    whose agents will not come back. Work that an agent has and the database does not know is ended by the agent
    afterwards. `rainbowctl delete reconciliation` does the same from elsewhere.

    \b
    Examples:
      rainbow-admin reconcile --config rainbow.yaml east
      rainbow-admin reconcile --all
    """
    from admin.server.startup import check_schema, open_app
    from admin.services.reconciliations import end_reconciliations

    if bool(clusters) == every:
        raise click.UsageError("Name the clusters that count as reconciled, or say --all.")
    app = open_app(load_settings(config_file, os.environ, _overrides(database=database)))
    check_schema(app)
    ended = end_reconciliations(app.extensions["rainbow"], clusters, every=every, by=Actor(claimed_by=_local_user()))
    for name in ended:
        click.echo(f"reconciled {name}")
    for name in sorted({*clusters} - {*ended}):
        click.echo(f"nothing to reconcile: {name}", err=True)


@cli.command("create-token")
@_common
@click.argument("user", metavar="USER")
@click.option("--create", is_flag=True, help="Create the user first, if there is none of that name.")
@click.option("--name", metavar="NAME", help="What the token is for.  [default: host, with the time]")
@click.option("--expires", metavar="AGE", help="After how long the token ends, such as 90d; without it, never.")
@click.option("--file", "path", metavar="FILE", help="Write the token into a new file that only you can read.")
def create_token_command(
    config_file: str | None,
    database: str | None,
    user: str,
    create: bool,
    name: str | None,
    expires: str | None,
    path: str | None,
) -> None:
    """Make a token of a user, on the admin's host.

    This is how the first user gets in, and how a user gets in again who has lost every token: it needs the database,
    not a token. Running admins accept the token at once. It is printed once, alone on a line of standard output, and
    only its hash is kept. Where no user has the role admin on the platform, this one gets it.

    \b
    Examples:
      rainbow-admin create-token ada --create
      rainbow-admin create-token ada --config rainbow.yaml --expires 1d --file token
    """
    from admin.core.audit import RequestOrigin
    from admin.server.startup import check_schema, open_app, prepare
    from admin.services.audit import note_token_created, store_waiting
    from admin.services.changeable.base import ChangeOptions
    from admin.services.grants import make_first_administrator
    from admin.services.user_tokens import create_token, revoke
    from admin.services.users import create_user
    from admin.store.schema import SchemaState, schema_state

    try:
        expires_in = None if expires is None else timedelta(seconds=float(parse_age(expires)))
    except (ValueError, OverflowError) as error:
        raise click.UsageError(f"--expires: '{expires}' {error}.") from error
    app = open_app(load_settings(config_file, os.environ, _overrides(database=database)))
    context = app.extensions["rainbow"]
    if schema_state(context.database.engine) is SchemaState.EMPTY:
        prepare(app)
    check_schema(app)
    options = ChangeOptions(authorship=Authorship(claimed_by=_local_user(), message="rainbow-admin create-token"))
    try:
        if create:
            with suppress(AlreadyExists):
                create_user(context, user, {}, options)
        issued = create_token(context, user, name or f"host-{context.clock():%Y%m%d-%H%M%S-%f}", expires_in)
    except UserNotFound as error:
        raise CannotStart(f"{error} With --create the user is created.") from error
    except (RainbowError, Invalid) as error:
        raise CannotStart(str(error)) from error
    note_token_created(context, RequestOrigin(), None, issued)
    store_waiting(context, is_last=True)
    if path is None:
        click.echo(issued.token)
    else:
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{issued.token}\n")
        except OSError as error:
            revoke(context, user, issued.prefix)
            raise CannotStart(f"{path} cannot be written: {error.strerror}. Give the name of a new file.") from error
    if make_first_administrator(context, user, options):
        click.echo(f"no user had the role admin on the platform: {user} has it now", err=True)
    where, variable = ("", "RAINBOW_TOKEN") if path is None else (f" is in {path}", "RAINBOW_TOKEN_FILE")
    click.echo(f"token {issued.prefix} of {user}{where}; give it to rainbowctl as {variable}", err=True)


def _local_user() -> str:
    """The user who runs the command: the name, or the number where the system has no name for it."""
    try:
        return getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def _total(steps: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The sum over all steps, with progress on standard error while they take long."""
    total: Counter[str] = Counter()
    reported_at = time.monotonic()
    for counts in steps:
        total.update(counts)
        if time.monotonic() - reported_at >= _PROGRESS_SECONDS:
            click.echo(f"{total.total()} rows so far", err=True)
            reported_at = time.monotonic()
    return total


def _overrides(**flags: Any) -> dict[str, dict[str, Any]]:
    """The configuration keys that flags set."""
    keys: dict[str, tuple[str, ...]] = {
        "host": ("server", "host"),
        "port": ("server", "port"),
        "workers": ("server", "workers"),
        "api_token_file": ("server", "apiTokenFile"),
        "serve_openly": ("server", "serveOpenly"),
        "tls_cert_file": ("server", "tls", "certFile"),
        "tls_key_file": ("server", "tls", "keyFile"),
        "registration_secret_file": ("clusters", "registrationSecretFile"),
        "database": ("database", "url"),
        "log_format": ("logging", "format"),
        **{
            name: ("retention", name)
            for name in ("executions", "events", "logs", "revisions", "audit", "descriptions", "bids", "namespaces")
        },
    }
    overrides: dict[str, dict[str, Any]] = {}
    for flag, (*sections, key) in keys.items():
        if flags.get(flag) is not None:
            section: dict[str, Any] = overrides
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = flags[flag]
    return overrides


def main() -> None:
    """Run the command line; exits with 2 for a wrong configuration, 1 for any other reason not to start."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"error: configuration: {problem}", err=True)
        sys.exit(2)
    except CannotStart as reason:
        click.echo(f"error: {reason}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
