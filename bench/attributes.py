"""Attributes over HTTP, beside the server's own ceiling: reads, effective values and writes on both databases."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import requests

from bench.load import Rate, get, measure, put
from tests.support.admins import running_admin
from tests.support.postgresql import binaries, running_postgresql

WORKFLOWS = 500
API = "/api/v1"


def run() -> list[dict[str, Any]]:
    """Every figure, on a temporary SQLite and a temporary PostgreSQL."""
    results = list(_on("sqlite", None))
    if binaries() is None:
        print("PostgreSQL is not installed: its figures are left out.")
        return results
    with running_postgresql() as url:
        return results + list(_on("postgresql", url))


def _on(name: str, database: str | None) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        quiet = {"RAINBOW_LOGGING_LEVEL": "warning"}
        with running_admin(Path(directory), database=database, environment=quiet) as admin:
            _fill(admin.url)
            port = int(admin.url.rsplit(":", 1)[1])
            scope = "project=flytesnacks&domain=development&workflow=wf{}&launch_plan=lp"
            own = f"{API}/workflow_attributes/flytesnacks/development/wf"

            def write(number: int) -> bytes:
                body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": f"c{number}"}}}}
                return put(f"{own}{number % WORKFLOWS}", json.dumps(body).encode())

            for what, request in {
                "empty route": lambda _: get("/healthz"),
                "read one row": lambda number: get(f"{own}{number % WORKFLOWS}?resource_type=3"),
                "effective, one kind": lambda number: get(
                    f"{API}/effective_attributes?{scope.format(number % WORKFLOWS)}&resource_type=0"
                ),
                "effective, all kinds": lambda number: get(
                    f"{API}/effective_attributes?{scope.format(number % WORKFLOWS)}"
                ),
                "write one row, with revision": write,
            }.items():
                yield _row(name, what, measure(port, request))


def _fill(url: str) -> None:
    with requests.Session() as session:
        for number in range(WORKFLOWS):
            body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "mycluster"}}}}
            path = f"{url}{API}/workflow_attributes/flytesnacks/development/wf{number}"
            session.put(path, json=body, timeout=10).raise_for_status()


def _row(database: str, what: str, rate: Rate) -> dict[str, Any]:
    return {"database": database, "what": what, **asdict(rate)}
