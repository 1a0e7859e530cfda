"""Admins under test: real ones, on a database that is already filled."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from bench import stock
from bench.processes import processor_seconds
from tests.support.admins import RunningAdmin, running_admin

API = "/api/v1"
#: An admin that uses less than a tenth of a core for so long has nothing left to load.
_QUIET_SECONDS = 0.5
_MOST_SECONDS = 120


@contextmanager
def admin_on(database: str, clusters: int = stock.CLUSTERS, token: str = "") -> Iterator[RunningAdmin]:
    """An admin with the fleet of the stock, which has loaded whatever it keeps in memory.

    One that has users is asked with a token.
    """
    with timed_admin_on(database, clusters, token) as (admin, _, _):
        yield admin


@contextmanager
def timed_admin_on(
    database: str, clusters: int = stock.CLUSTERS, token: str = ""
) -> Iterator[tuple[RunningAdmin, float, float]]:
    """The same, and the seconds after which it answered, and had loaded everything."""
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as directory:
        configuration = stock.configure(Path(directory), clusters)
        environment = {"RAINBOW_LOGGING_LEVEL": "warning"}
        if token:  # those that are revoked are asked with until every worker refuses them
            environment["RAINBOW_LIMITS_WRONG_TOKENS_PER_MINUTE"] = "1000000"
        arguments = ("--config", str(configuration))
        begin = time.monotonic()
        with running_admin(Path(directory), *arguments, database=database, environment=environment) as admin:
            ready = time.monotonic() - begin
            _wait_until_quiet(admin, token)
            loaded = time.monotonic() - begin - _QUIET_SECONDS
            try:
                yield admin, ready, loaded
            finally:
                _print_log(admin)


def port_of(admin: RunningAdmin) -> int:
    return int(admin.url.rsplit(":", 1)[1])


def _wait_until_quiet(admin: RunningAdmin, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = f"{API}/effective_attributes?domain={stock.DOMAINS[0]}"
    for _ in range(20):  # each new connection comes to some worker, so all of them have been asked
        requests.get(admin.url + path, headers=headers, timeout=60).raise_for_status()
    deadline = time.monotonic() + _MOST_SECONDS
    is_busy = True
    while is_busy and time.monotonic() < deadline:
        before = processor_seconds(admin)
        time.sleep(_QUIET_SECONDS)
        is_busy = processor_seconds(admin) - before > _QUIET_SECONDS / 10


def _print_log(admin: RunningAdmin) -> None:
    """Whatever an admin had to warn of, which should be nothing."""
    lines = admin.log.read_text(errors="replace").splitlines()
    for line in lines[:3]:
        print(f"admin: {line[:1500]}", file=sys.stderr)
    if len(lines) > 3:
        print(f"admin: … and {len(lines) - 3} more lines", file=sys.stderr)
