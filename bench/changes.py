"""Changes of other nouns one by one, and of thousands of rows at once."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from bench import stock
from bench.admins import API, admin_on, port_of
from bench.ceilings import INSERT, insert_call, running_ceilings
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import QUICK, Call, Pace, measure_in_turns
from bench.processes import largest_worker
from tests.support.admins import RunningAdmin
from tests.support.programs import BIN, clean_environment

NAME = "changes"
PROJECT, POOL, WORKFLOW, PLAN = "create a project", "define a pool", "register a workflow", "register a launch plan"
SINGLES = (PROJECT, POOL, WORKFLOW, PLAN)
MANY, APPLY = "attribute_changes of 2,000 rows", "rainbowctl apply of 10,000 documents"
MEMORY = "memory of a worker after these"
_ROWS, _DOCUMENTS, _FEW_DOCUMENTS = 2000, 10_000, 500
_TIMES = 5


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    stock.fill(database, stock.MILLION)
    with admin_on(database) as admin, running_ceilings(backend.create()) as ceilings:
        workflow = _identifier("core.training", "v1")
        _post(admin, "workflows", {"id": workflow, "spec": {"job": stock.JOB}})
        plan = {"id": _identifier("nightly", "<unique>"), "spec": {"workflow_id": workflow}}
        pool = {"members": [{"id": "cluster-0", "weight": "<weight>"}, {"id": "cluster-1", "weight": 1}]}
        rates = measure_in_turns(
            {
                INSERT: insert_call(ceilings).measure,
                PROJECT: _call(admin, "projects", {"project": {"id": "p<unique>", "name": "A project"}}).measure,
                POOL: _call(admin, "pools/pool-<pool>", {"pool": pool}, method="PUT").measure,
                WORKFLOW: _call(
                    admin, "workflows", {"id": _identifier("core.training", "<unique>"), "spec": {"job": stock.JOB}}
                ).measure,
                PLAN: _call(admin, "launch_plans", plan).measure,
            },
            pace,
        )
        for what, rate in rates.items():
            yield rate_figure(NAME, what, backend.name, rate, ceiling="" if what == INSERT else INSERT)
        yield Figure(bench=NAME, what=MANY, database=backend.name, value=_change_many(admin), unit="rows/s")
        documents = _FEW_DOCUMENTS if pace == QUICK else _DOCUMENTS
        yield Figure(bench=NAME, what=APPLY, database=backend.name, value=_apply(admin, documents), unit="rows/s")
        yield Figure(bench=NAME, what=MEMORY, database=backend.name, value=largest_worker(admin), unit="MiB")


def _identifier(name: str, version: str) -> dict[str, str]:
    return {"project": stock.project_name(0), "domain": stock.DOMAINS[0], "name": name, "version": version}


def _call(admin: RunningAdmin, path: str, body: dict[str, Any], method: str = "POST") -> Call:
    text = json.dumps(body).replace('"<weight>"', "<weight>")
    return Call(port=port_of(admin), path=f"{API}/{path}", method=method, body=text, draws={"pool": 50, "weight": 1000})


def _post(admin: RunningAdmin, path: str, body: dict[str, Any]) -> None:
    requests.post(f"{admin.url}{API}/{path}", json=body, timeout=120).raise_for_status()


def _change_many(admin: RunningAdmin) -> float:
    """Rows a second in requests of many, one after the other."""
    begin = time.monotonic()
    for priority in range(_TIMES):
        rows = [{"resource_type": "WORKFLOW_PRIORITY", **_place(number)} for number in range(_ROWS)]
        _post(admin, "attribute_changes", {"changes": [{**row, "payload": {"priority": priority}} for row in rows]})
    return _ROWS * _TIMES / (time.monotonic() - begin)


def _place(number: int) -> dict[str, str]:
    """A scope of its own for each number."""
    number, domain = divmod(number, len(stock.DOMAINS))
    project, workflow = divmod(number, stock.WORKFLOWS)
    return {
        "project": stock.project_name(project),
        "domain": stock.DOMAINS[domain],
        "workflow": stock.workflow_name(workflow),
    }


def _apply(admin: RunningAdmin, documents: int) -> float:
    """Documents a second, from the start of the command to its end."""
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as home:
        directory = Path(home) / "settings"
        directory.mkdir()
        for number in range(documents):
            document = {"kind": "execution-cluster-label", **_place(number), "value": "anywhere"}
            (directory / f"{number}.yaml").write_text(json.dumps(document))
        command = [str(BIN / "rainbowctl"), "apply", "-f", str(directory), "--endpoint", admin.url]
        begin = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, env=clean_environment(HOME=home), cwd=home)
        return documents / (time.monotonic() - begin)
