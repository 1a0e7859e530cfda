"""Creating executions over HTTP: resolve every kind, decide among 20 clusters, and commit; singly and in batches."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import requests

from admin.app import create_app
from admin.configuration import load_settings
from admin.services.context import Context
from admin.services.creations import create_execution
from admin.services.run_requests import read_request
from bench import stock
from bench.admins import API, admin_on, port_of
from bench.ceilings import DIRECT, DIRECT_MANY, INSERT, in_threads, insert_call, running_ceilings, without_http
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import Call, Measure, Pace, measure_in_turns

NAME = "creations"
BATCH = 100
JOB, PLAN = "a job, one by one", "a launch plan, one by one"
JOB_BATCH, PLAN_BATCH = "a job, in batches of 100", "a launch plan, in batches of 100"
LOADED, LOADED_BATCH = "a job by load, one by one", "a job by load, in batches of 100"
SERVICE = "a job, no HTTP"
_LOADED = "loaded"

_CEILINGS = {
    INSERT: DIRECT,
    SERVICE: DIRECT,
    JOB: INSERT,
    PLAN: INSERT,
    JOB_BATCH: DIRECT_MANY,
    PLAN_BATCH: DIRECT_MANY,
    LOADED: INSERT,
    LOADED_BATCH: DIRECT_MANY,
}


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database, bare = backend.create(), backend.create()
    stock.fill(database, stock.THOUSAND)
    stock.bound_others(database, stock.THOUSAND)
    with (
        admin_on(database) as admin,
        running_ceilings(bare) as ceilings,
        without_http(bare) as direct,
        _service(database) as create,
    ):
        _register(admin.url)
        _define_loaded(admin.url)
        port = port_of(admin)
        rates = measure_in_turns(
            {
                DIRECT: direct.insert(1),
                DIRECT_MANY: direct.insert(BATCH),
                INSERT: insert_call(ceilings).measure,
                SERVICE: create,
                JOB: create_call(port, stock.job_body()).measure,
                PLAN: create_call(port, stock.plan_body()).measure,
                JOB_BATCH: create_call(port, stock.job_body(), BATCH).measure,
                PLAN_BATCH: create_call(port, stock.plan_body(), BATCH).measure,
                LOADED: create_call(port, _loaded_body()).measure,
                LOADED_BATCH: create_call(port, _loaded_body(), BATCH).measure,
            },
            pace,
        )
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate, ceiling=_CEILINGS.get(what, ""))


@contextmanager
def _service(database: str) -> Iterator[Measure]:
    """The admin's service that creates an execution, called in this process."""
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as directory:
        configuration = stock.configure(Path(directory))
        app = create_app(load_settings(str(configuration), {}, {"database": {"url": database}}))
        context: Context = app.extensions["rainbow"]
        project, domain = stock.project_name(0), stock.DOMAINS[0]

        def create() -> None:
            name = f"s{secrets.token_hex(10)}"
            request = read_request(project=project, domain=domain, name=name, spec={"job": stock.JOB}, inputs=None)
            create_execution(context, request)

        try:
            yield partial(in_threads, create)
        finally:
            context.close()
            context.database.engine.dispose()


def create_call(port: int, body: dict[str, Any], times: int = 1) -> Call:
    """A creation of one execution, or of a batch."""
    return Call(
        port=port,
        path=f"{API}/executions",
        method="POST",
        body=json.dumps(body),
        draws=stock.draws(stock.THOUSAND),
        times=times,
        ends=('{"executions": [', "]}") if times > 1 else ("", ""),
    )


def _loaded_body() -> dict[str, Any]:
    """A creation in the pool whose strategy looks at load, so that each counts on what those before it take."""
    body = stock.job_body()
    return {**body, "spec": {**body["spec"], "cluster_assignment": {"cluster_pool_name": _LOADED}}}


def _define_loaded(url: str) -> None:
    """A pool of 20 clusters of its own that takes the one which is least in use."""
    with requests.Session() as session:
        members = [f"{_LOADED}-{number}" for number in range(stock.CLUSTERS)]
        for name in members:
            cluster = {"cluster": {"capacity": {"cpu": "1000000", "memory": "1000Ti"}}}
            session.put(f"{url}{API}/clusters/{name}", json=cluster, timeout=10).raise_for_status()
        pool = {"pool": {"strategy": "least-loaded", "members": [{"id": name} for name in members]}}
        session.put(f"{url}{API}/pools/{_LOADED}", json=pool, timeout=10).raise_for_status()


def _register(url: str) -> None:
    """Register every workflow of the stock with its launch plan."""
    with requests.Session() as session:

        def post(noun: str, body: dict[str, Any]) -> None:
            session.post(f"{url}{API}/{noun}", json=body, timeout=10).raise_for_status()

        for domain in stock.DOMAINS:
            for number in range(stock.WORKFLOWS):
                place = {"project": stock.project_name(0), "domain": domain, "version": "v1"}
                workflow = {**place, "name": stock.workflow_name(number)}
                inputs = {"epochs": {"type": "integer", "default": 3}}
                job = {**stock.JOB, "command": ["python", "train.py", "--epochs", "{{ inputs.epochs }}"]}
                post("workflows", {"id": workflow, "spec": {"inputs": inputs, "job": job}})
                plan = {**place, "name": stock.plan_name(number)}
                post("launch_plans", {"id": plan, "state": "ACTIVE", "spec": {"workflow_id": workflow}})
