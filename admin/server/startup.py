"""Startup: the checks before an admin starts, and its database made ready."""

from __future__ import annotations

import logging
import socket
import ssl
import stat
from pathlib import Path

from flask import Flask
from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from admin.app import create_app
from admin.configuration import Settings
from admin.core.hosts import is_loopback
from admin.core.problems import shorten
from admin.errors import CannotStart
from admin.services.audit_queue import append
from admin.services.clocks import begin_clock_check
from admin.services.projects import seed_projects
from admin.services.users import has_users
from admin.store.schema import (
    SchemaState,
    current_revision,
    known_revisions,
    latest_revision,
    migrate,
    schema_state,
)

_log = logging.getLogger("rainbow.server")


def open_app(settings: Settings) -> Flask:
    """The app, on a database that can be reached; CannotStart where it cannot."""
    backend = settings.database_url.partition(":")[0].partition("+")[0]
    if backend not in ("sqlite", "postgresql"):
        raise CannotStart(
            f"The database cannot be opened: {shorten(backend)} is not supported. Use sqlite:///file.db or "
            "postgresql+psycopg://user@host/name."
        )
    try:
        app = create_app(settings)
        schema_state(app.extensions["rainbow"].database.engine)
    except ModuleNotFoundError as error:
        raise CannotStart(f"The database driver {error.name} is missing: pip install 'rainbow[postgres]'.") from error
    except (SQLAlchemyError, OSError) as error:
        raise CannotStart(f"The database cannot be opened: {driver_reason(error)}") from error
    return app


def driver_reason(error: Exception) -> str:
    """What the database's driver says went wrong, in one line."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def prepare(app: Flask) -> None:
    """Set up an empty database; CannotStart for a schema that this version does not work with."""
    context = app.extensions["rainbow"]
    engine = context.database.engine
    if _usable_state(engine) is SchemaState.EMPTY:
        migrate(engine)
        _log.info("database set up", extra={"schema": latest_revision()})
    begin_clock_check(context)
    seeded = seed_projects(context)
    if seeded:
        _log.info("projects created", extra={"projects": ", ".join(seeded)})


def check_schema(app: Flask) -> None:
    """CannotStart for a schema that this version does not work with."""
    if _usable_state(app.extensions["rainbow"].database.engine) is SchemaState.EMPTY:
        raise CannotStart("The database is empty. Choose another one with --database or --config.")


def _usable_state(engine: Engine) -> SchemaState:
    """Whether a database is empty or current; CannotStart for a schema of another version."""
    match state := schema_state(engine):
        case SchemaState.BEHIND:
            raise CannotStart(
                f"The database has schema {current_revision(engine)}, this version needs {latest_revision()}. "
                "Back it up, then run `rainbow-admin migrate` with the same --database and --config."
            )
        case SchemaState.UNKNOWN:
            raise CannotStart(_unknown_schema(current_revision(engine)))
    return state


def migrate_database(app: Flask, to: str) -> None:
    """Migrate a database of Rainbow, or an empty one; CannotStart for any other, and where the migration fails."""
    engine = app.extensions["rainbow"].database.engine
    if schema_state(engine) is SchemaState.UNKNOWN:
        raise CannotStart(_unknown_schema(current_revision(engine)))
    if to not in ("head", "base") and to not in known_revisions():
        raise CannotStart(f"There is no schema revision {shorten(to)}; known are {', '.join(known_revisions())}.")
    try:
        migrate(engine, to)
    except SQLAlchemyError as error:
        raise CannotStart(
            f"The migration failed: {driver_reason(error)}. Run it again: it is made as a whole, or not at all."
        ) from error


def _unknown_schema(revision: str | None) -> str:
    return (
        f"The database has a schema that this version does not know ({revision or 'not one of Rainbow'}). "
        "Start the version of Rainbow that made it, or choose another --database."
    )


def check_certificate(settings: Settings) -> None:
    """CannotStart for a certificate or key that cannot be used."""
    cert, key = settings.server.tls_cert_file, settings.server.tls_key_file
    if cert is None or key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotStart(f"The certificate {cert} with the key {key} cannot be used: {reason}.") from error


def check_audit_file(settings: Settings) -> None:
    """CannotStart for a file of audit events that cannot be written."""
    if settings.audit_file is None:
        return
    try:
        append(settings.audit_file, b"")
    except OSError as error:
        reason = f"audit.file {settings.audit_file} cannot be written: {error.strerror}"
        raise CannotStart(f"{reason}. Name a file in a directory that the admin may write to, or -.") from error


def _no_password() -> str:
    raise ValueError("the key is protected by a password; use one without")


def check_exposure(settings: Settings) -> None:
    """CannotStart where the admin would be reachable from other machines and nobody could have a token."""
    server = settings.server
    can_have_token = server.api_token_file is not None or settings.openid is not None
    if settings.needs_token and not can_have_token and not _has_stored_users(settings):
        raise CannotStart(
            f"Without users and without a token the admin listens on loopback only, not on {server.host}. Make the "
            "first user with `rainbow-admin create-token NAME --create --file FILE` and the same --config or "
            "--database; FILE then has the token, with mode 0600. Or configure openid.issuer, or use --apiTokenFile "
            "FILE (`openssl rand -hex 32 > FILE` creates one), or --host 127.0.0.1; --serveOpenly lets everybody in "
            "who can reach the admin."
        )


def _has_stored_users(settings: Settings) -> bool:
    """Whether a database that is set up already has users."""
    file = _database_file(settings)
    if file is not None and not Path(file).exists():  # which to open it would create
        return False
    app = open_app(settings)
    context = app.extensions["rainbow"]
    try:
        if schema_state(context.database.engine) is SchemaState.EMPTY:
            return False
        check_schema(app)
        return has_users(context)
    finally:
        context.database.engine.dispose()


def warn_of_exposure(settings: Settings) -> None:
    """Log what lets others read a secret: a world-readable file, or a token that is sent in clear text."""
    server = settings.server
    files = (server.api_token_file, server.tls_key_file, settings.agents.secret_file, _database_file(settings))
    for path in filter(None, files):
        if _is_readable_by_all(path):
            _log.warning("everybody on this machine may read a secret: chmod 600", extra={"file": path})
    if server.serve_openly and not settings.needs_token:
        _log.warning(
            "everybody who can reach the admin may do everything until there is a user: server.serveOpenly",
            extra={"host": server.host},
        )
    if settings.needs_token and not server.tls_cert_file and not is_loopback(server.host):
        _log.warning(
            "tokens are sent in clear text: set server.tls, or let a proxy that speaks https stand before the admin",
            extra={"host": server.host},
        )


def _database_file(settings: Settings) -> str | None:
    url = make_url(settings.database_url)
    return url.database if url.get_backend_name() == "sqlite" else None


def _is_readable_by_all(path: str) -> bool:
    """Whether a file can be read by every user of the machine."""
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def free_address(host: str, port: int) -> tuple[str, int]:
    """The address of a host or its name, and the port to listen on, a free one for 0; CannotStart if there is none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            bound: tuple[str, int] = probe.getsockname()[:2]
    except OSError as error:
        raise CannotStart(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port or --host."
        ) from error
    return bound
