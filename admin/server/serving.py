"""Serving: the main process of an admin, which starts its workers."""

from __future__ import annotations

import logging
import logging.config
import os
import resource
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels

from admin.configuration import Server, Settings, load_settings
from admin.gate import MOST_LOOKUPS
from admin.logs import log_configuration
from admin.server.granian_worker import serve_worker
from admin.server.respawning import RespawningServer
from admin.server.startup import (
    check_audit_file,
    check_certificate,
    check_exposure,
    free_address,
    open_app,
    prepare,
    warn_of_exposure,
)
from admin.server.workers import SharedMemory, create_worker

_log = logging.getLogger("rainbow.server")
#: Threads of a worker beside those that answer requests with a token: to look up tokens, for open paths, and to refuse
#: what is too much.
_SPARE_THREADS = MOST_LOOKUPS + 128
#: Connections that a worker holds at most, idle ones included, and the files it needs for other things.
_MOST_CONNECTIONS = 16_384
_OTHER_FILES = 512


def serve(config_file: str | None, overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Run an admin until it is stopped."""
    settings = load_settings(config_file, os.environ, overrides)
    logs = log_configuration(settings.log_level, settings.log_format)
    logging.config.dictConfig(logs)
    check_exposure(settings)
    check_certificate(settings)
    check_audit_file(settings)
    address, port = free_address(settings.server.host, settings.server.port)
    app = open_app(settings)
    warn_of_exposure(settings)
    prepare(app)
    app.extensions["rainbow"].database.engine.dispose()
    server = build_server(replace(settings.server, host=address), port, logs)
    threading.Thread(target=_announce, args=(settings, port), daemon=True).start()
    shared = SharedMemory.allocate(settings.server.workers)
    load = partial(create_worker, server, os.getpid(), shared, config_file, overrides)
    server.serve(spawn_target=serve_worker, target_loader=load, wrap_loader=False)
    _log.info("stopped")


def build_server(server: Server, port: int, logs: dict[str, Any]) -> RespawningServer:
    """The server; docs/decisions 0002 and 0010 have the measurements behind the numbers."""
    return RespawningServer(
        "admin.server.workers:create_worker",
        interface=Interfaces.WSGI,
        address=server.host,
        port=port,
        workers=server.workers,
        blocking_threads=server.threads + _SPARE_THREADS,
        blocking_threads_idle_timeout=60,
        backlog=2048,
        backpressure=_allow_connections(server.threads),
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=server.receive_seconds * 1000, max_buffer_size=65_536),
        ssl_cert=Path(server.tls_cert_file) if server.tls_cert_file else None,
        ssl_key=Path(server.tls_key_file) if server.tls_key_file else None,
        ssl_protocol_min=SSLProtocols.tls12,
        respawn_failed_workers=True,
        workers_kill_timeout=server.graceful_shutdown_seconds or 0.5,  # 0 would be no limit
        log_dictconfig=logs,
        log_access=False,
        log_level=LogLevels.error,  # its other lines would repeat ours
    )


def _allow_connections(threads: int) -> int:
    """How many connections a worker may hold; raises the limit of open files as far as that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < files:
        files = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(files - _OTHER_FILES, threads)


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
