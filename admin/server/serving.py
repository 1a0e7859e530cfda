"""Serving: the main process of an admin, which starts its workers."""

from __future__ import annotations

import logging
import logging.config
import os
import socket
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels

from admin.configuration import Server, Settings, load_settings
from admin.logs import log_configuration
from admin.server.respawning import RespawningServer
from admin.server.startup import check_certificate, check_exposure, free_port, open_app, prepare, warn_of_exposure
from admin.server.workers import SharedMemory, create_worker

_log = logging.getLogger("rainbow.server")


def serve(config_file: str | None, overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Run an admin until it is stopped."""
    settings = load_settings(config_file, os.environ, overrides)
    logs = log_configuration(settings.log_level, settings.log_format)
    logging.config.dictConfig(logs)
    check_exposure(settings)
    check_certificate(settings)
    port = free_port(settings.server.host, settings.server.port)
    app = open_app(settings)
    warn_of_exposure(settings)
    prepare(app)
    app.extensions["rainbow"].database.engine.dispose()
    server = build_server(settings.server, port, logs)
    threading.Thread(target=_announce, args=(settings, port), daemon=True).start()
    shared = SharedMemory.allocate(settings.server.workers)
    load = partial(create_worker, server, os.getpid(), shared, config_file, overrides)
    server.serve(target_loader=load, wrap_loader=False)
    _log.info("stopped")


def build_server(server: Server, port: int, logs: dict[str, Any]) -> RespawningServer:
    """The WSGI server; docs/decisions/0002-wsgi-server.md has the measurements behind the numbers."""
    return RespawningServer(
        "admin.server.workers:create_worker",
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
        log_level=LogLevels.error,  # its other lines would repeat ours
    )


def _announce(settings: Settings, port: int) -> None:
    """Log the URL once the admin accepts connections."""
    scheme = "https" if settings.server.tls_cert_file else "http"
    host = f"[{settings.server.host}]" if ":" in settings.server.host else settings.server.host
    url = f"{scheme}://{host}:{port}"
    for _ in range(300):
        time.sleep(0.1)  # before the first try: the workers are forked meanwhile and must not inherit a lock held here
        try:
            with socket.create_connection((settings.server.host, port), timeout=1):
                break
        except OSError:
            continue
    _log.info("listening", extra={"url": url, "database": settings.shown_database_url})
