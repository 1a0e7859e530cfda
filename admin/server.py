"""The server: checks that an admin may start, sets up its database, and runs its workers."""

from __future__ import annotations

import gc
import ipaddress
import logging
import logging.config
import os
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask
from granian import Granian
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from admin.app import create_app
from admin.configuration import Server, Settings, load_settings
from admin.core.problems import shorten
from admin.errors import CannotStart
from admin.logs import log_configuration
from admin.loops.leadership import Leader
from admin.loops.leases import LeaseLoop
from admin.loops.retention import RetentionLoop
from admin.loops.statistics import StatisticsLoop
from admin.loops.waiting import WaitingLoop
from admin.services.projects import seed_projects
from admin.store.schema import (
    SchemaState,
    current_revision,
    known_revisions,
    latest_revision,
    migrate,
    schema_state,
)

_log = logging.getLogger("rainbow.server")

#: How long a worker whose main process is gone may take to finish what it is doing.
_LAST_SECONDS = 5


def open_app(settings: Settings) -> Flask:
    """The app of a database that can be reached; CannotStart where it cannot."""
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
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise CannotStart(f"The database cannot be opened: {reason}") from error
    return app


def prepare(app: Flask) -> None:
    """Set an empty database up; refuse one whose schema this version does not work with."""
    context = app.extensions["rainbow"]
    engine = context.database.engine
    if schema_state(engine) is SchemaState.EMPTY:
        migrate(engine)
        _log.info("database set up", extra={"schema": latest_revision()})
    check_schema(app)
    seeded = seed_projects(context)
    if seeded:
        _log.info("projects created", extra={"projects": ", ".join(seeded)})


def check_schema(app: Flask) -> None:
    """Refuse a database whose schema this version does not work with."""
    engine = app.extensions["rainbow"].database.engine
    match schema_state(engine):
        case SchemaState.EMPTY:
            raise CannotStart("The database is empty. Say which one is meant with --database or --config.")
        case SchemaState.BEHIND:
            raise CannotStart(
                f"The database has schema {current_revision(engine)}, this version needs {latest_revision()}. "
                "Back it up, then run `rainbow-admin migrate` with the same --database and --config."
            )
        case SchemaState.UNKNOWN:
            raise CannotStart(_unknown_schema(current_revision(engine)))


def bring_up_to_date(app: Flask, to: str) -> None:
    """Migrate a database that is ours, or empty; CannotStart for any other, and where it fails."""
    engine = app.extensions["rainbow"].database.engine
    if schema_state(engine) is SchemaState.UNKNOWN:
        raise CannotStart(_unknown_schema(current_revision(engine)))
    if to not in ("head", "base") and to not in known_revisions():
        raise CannotStart(f"There is no schema revision {shorten(to)}; known are {', '.join(known_revisions())}.")
    try:
        migrate(engine, to)
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise CannotStart(f"The migration failed and was taken back: {reason}") from error


def _unknown_schema(revision: str | None) -> str:
    return (
        f"The database has a schema this version does not know ({revision or 'not ours'}). "
        "Start the version of Rainbow that made it, or choose another --database."
    )


def check_certificate(settings: Settings) -> None:
    """Refuse a certificate or key that could not be served."""
    cert, key = settings.server.tls_cert_file, settings.server.tls_key_file
    if cert is None or key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotStart(f"The certificate {cert} with the key {key} cannot be used: {reason}.") from error


def _no_password() -> str:
    raise ValueError("the key is protected by a password, which nobody is there to type")


def check_exposure(settings: Settings) -> None:
    """Without a token nobody but this machine may ask."""
    host = settings.server.host
    if settings.server.api_token_file is None and not _is_loopback(host):
        raise CannotStart(
            f"Without a token the admin listens on loopback only, not on {host}. Give --apiTokenFile FILE "
            "(`openssl rand -hex 32 > FILE` makes one), or --host 127.0.0.1."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port(host: str, port: int) -> int:
    """The port to listen on, a free one for 0; CannotStart where something else has it."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            found: int = probe.getsockname()[1]
    except OSError as error:
        raise CannotStart(f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port.") from error
    return found


def serve(config_file: str | None, overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Run an admin until it is told to stop."""
    settings = load_settings(config_file, os.environ, overrides)
    logs = log_configuration(settings.log_level, settings.log_format)
    logging.config.dictConfig(logs)
    check_exposure(settings)
    check_certificate(settings)
    port = free_port(settings.server.host, settings.server.port)
    app = open_app(settings)
    prepare(app)
    app.extensions["rainbow"].database.engine.dispose()
    server = _granian(settings.server, port, logs)
    threading.Thread(target=_announce, args=(settings, port), daemon=True).start()
    with tempfile.NamedTemporaryFile(prefix="rainbow-counter-") as shared:
        load = partial(_worker, server, os.getpid(), shared.name, config_file, overrides)
        server.serve(target_loader=load, wrap_loader=False)
    _log.info("stopped")


def _granian(server: Server, port: int, logs: dict[str, Any]) -> Any:
    """The server; docs/decisions/0002-wsgi-server.md has the measurements behind the numbers."""
    return Granian(
        "admin.server:_worker",
        interface=Interfaces.WSGI,
        address=server.host,
        port=port,
        workers=server.workers,
        blocking_threads=server.threads,
        blocking_threads_idle_timeout=60,
        backlog=2048,
        backpressure=max(2048, server.threads),  # connections a worker holds, idle ones included
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=75_000, max_buffer_size=65_536),
        ssl_cert=Path(server.tls_cert_file) if server.tls_cert_file else None,
        ssl_key=Path(server.tls_key_file) if server.tls_key_file else None,
        ssl_protocol_min=SSLProtocols.tls12,
        respawn_failed_workers=True,
        workers_kill_timeout=server.graceful_shutdown_seconds,
        log_dictconfig=logs,
        log_access=False,
        log_level=LogLevels.error,  # its own news would only repeat ours
    )


def _worker(
    server: Any, parent: int, counter_path: str, config_file: str | None, overrides: Mapping[str, Mapping[str, Any]]
) -> Flask:
    """The app of one worker process."""
    _end_when_told(server)
    _end_with(parent)
    for name in [name for name in os.environ if name.startswith("HTTP_")]:
        del os.environ[name]  # the server would pass them on as if they were request headers
    settings = load_settings(config_file, os.environ, overrides)
    logging.config.dictConfig(log_configuration(settings.log_level, settings.log_format))
    app = create_app(settings, counter_path=counter_path)
    context = app.extensions["rainbow"]
    context.index.start()
    gc.collect()
    gc.freeze()  # what is loaded by now stays; to look at it again and again would hold requests up
    gc.set_threshold(10_000, 20, 20)
    leader = Leader(
        context, [WaitingLoop(context), LeaseLoop(context), RetentionLoop(context), StatisticsLoop(context)]
    )
    leader.start()
    _on_stop(context.close, leader.close)
    return app


def _end_when_told(server: Any) -> None:
    """Let a worker end at once that is told to while it starts.

    It has the handlers of the main process until the server takes signals itself, and those end no worker.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if server.interrupt_signal:  # as one of those handlers has noted
        os._exit(0)


def _on_stop(*acts: Callable[[], None]) -> None:
    """Act as soon as this worker is told to stop, so that requests which only wait are answered at once.

    The server replaces signal handlers, but the descriptor that Python writes signals to stays ours.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        kept = reader, writer  # open to the end: a second signal may still be written
        while not {signal.SIGTERM, signal.SIGINT}.intersection(kept[0].recv(64)):
            pass
        for act in acts:
            act()
        threading.Event().wait()

    threading.Thread(target=watch, name="stop", daemon=True).start()


def _end_with(parent: int) -> None:
    """Let no worker outlive a main process that was killed.

    A signal alone would not do: while a worker starts there are moments in which nobody takes it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_LAST_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _announce(settings: Settings, port: int) -> None:
    """Say where the admin is once it answers."""
    scheme = "https" if settings.server.tls_cert_file else "http"
    host = f"[{settings.server.host}]" if ":" in settings.server.host else settings.server.host
    url = f"{scheme}://{host}:{port}"
    for _ in range(300):
        time.sleep(0.1)  # first of all: the workers are forked meanwhile, and must not inherit a lock held here
        try:
            with socket.create_connection((settings.server.host, port), timeout=1):
                break
        except OSError:
            continue
    _log.info("listening", extra={"url": url, "database": _masked(settings.database_url)})


def _masked(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)
