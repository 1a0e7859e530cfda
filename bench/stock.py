"""Stock: configuration, fleet and attributes like those of a real platform, loaded into a database in bulk."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy.engine import make_url

from admin.configuration import load_settings
from admin.core.settings.scopes import Level, Scope
from admin.store.database import Database
from admin.store.schema import migrate
from bench.load import Call
from tests.support.http_agents import write_configuration
from tests.support.token_backends import define

DOMAINS = ("development", "staging", "production")
WORKFLOWS = 41  #: of each project in each domain
CLUSTERS = 20
JOB = {"command": ["python", "train.py", "--epochs", "3"], "resources": {"requests": {"cpu": "500m"}}}
#: Who made the oldest revision only.
RARE_AUTHOR = "ann"
#: Projects that have a thousand attributes, and a million.
THOUSAND, MILLION = 1, 1000
#: Token pools that nothing asks for, and projects that have quotas and run nothing.
_POOLS, _BOUNDED = 50, 100

_COLUMNS = ("kind", "project", "domain", "workflow", "launch_plan", "payload", "version", "updated_at", "updated_by")


def draws(projects: int) -> dict[str, int | tuple[str, ...]]:
    """The numbers and words that a call draws a scope of the stock with."""
    return {"project": projects, "domain": DOMAINS, "workflow": WORKFLOWS}


def project_name(number: object) -> str:
    return f"team-{number}"


def workflow_name(number: object) -> str:
    return f"core.training.flow_{number}"


def plan_name(number: object) -> str:
    return f"nightly_{number}"


def job_body() -> dict[str, Any]:
    """A job that is given with the request, and resolves at its project and domain."""
    return {**_place(), "spec": {"job": JOB}}


def plan_body() -> dict[str, Any]:
    """A launch plan of a registered workflow, with an input."""
    plan = {"resource_type": "LAUNCH_PLAN", "name": plan_name("<workflow>"), "version": "v1"}
    return {**_place(), "spec": {"launch_plan": plan}, "inputs": {"epochs": 7}}


def _place() -> dict[str, str]:
    return {"project": project_name("<project>"), "domain": "<domain>", "name": "e<unique>"}


def effective_call(port: int, projects: int, more: str = "") -> Call:
    """What applies at some launch plan."""
    scope = (
        f"project={project_name('<project>')}&domain=<domain>&workflow={workflow_name('<workflow>')}"
        f"&launch_plan={plan_name('<workflow>')}"
    )
    return Call(port=port, path=f"/api/v1/effective_attributes?{scope}{more}", draws=draws(projects))


def cluster_name(number: object) -> str:
    return f"cluster-{number}"


def configure(directory: Path, clusters: int = CLUSTERS) -> Path:
    """A configuration with 20 clusters, or more, in two pools and two labels, queues, and tiers."""
    names = [cluster_name(number) for number in range(clusters)]

    def members(weights: int) -> list[dict[str, Any]]:
        return [{"id": name, "weight": 1 + number % weights} for number, name in enumerate(names)]

    return write_configuration(
        directory,
        clusters={
            "clusterConfigs": [
                {"name": name, "capacity": {"cpu": "512", "memory": "2Ti", "gpu": "16"}, "cost": 1 + number % 4}
                for number, name in enumerate(names)
            ],
            "poolNameClusterMap": {"batch": members(1), "training": members(3)},
            "labelClusterMap": {"anywhere": members(1), "near": members(3)},
            "defaultClusterPool": "batch",
        },
        queues={
            "executionQueues": [
                {"dynamic": "critical_queue", "attributes": ["critical"]},
                {"dynamic": "default_queue", "attributes": ["default", "gpu"]},
            ]
        },
    )


def fill(database: str, projects: int, *, with_history: bool = False) -> int:
    """Set a database up with projects and their attributes, and answer how many attributes there are.

    With its history each attribute has the revision that stored it; otherwise there is the last one alone.
    """
    engine = sqlalchemy.create_engine(database)
    migrate(engine)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "INSERT INTO projects (id, name, description, labels, state, created_at, updated_at, version)"
                " VALUES (:id, :id, '', '{}', 'ACTIVE', :now, :now, 1)"
            ),
            [{"id": project_name(number), "now": now} for number in range(projects)],
        )
    count = _copy(database, _rows(projects, now))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE revision_head SET number = :count"), {"count": count})
        for statement in _HISTORY if with_history else ():
            connection.execute(sqlalchemy.text(statement), {"rare": RARE_AUTHOR, "count": count})
        connection.execute(
            sqlalchemy.text("INSERT INTO revisions (number, created_at, author) VALUES (:count, :now, 'bench')"),
            {"count": count, "now": now},
        )
    if with_history and engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sqlalchemy.text("VACUUM ANALYZE revisions, revision_changes"))
    engine.dispose()
    return count


def bound_others(database: str, projects: int) -> None:
    """Define token pools, and quotas of further projects, so that what asks for none is measured beside them."""
    engine = sqlalchemy.create_engine(database)
    define(Database(engine), {f"pool{number}": {"capacity": 100, "caps": {"project": 10}} for number in range(_POOLS)})
    engine.dispose()
    quotas = {"EXECUTION_QUOTA": {"running": 10, "waiting": 100}, "TOKEN_POOL_QUOTA": {"pools": {"pool0": 5}}}
    now = datetime(2026, 1, 1).isoformat(sep=" ", timespec="microseconds")
    further = [project_name(projects + number) for number in range(_BOUNDED)]
    _copy(
        database,
        [
            (kind, project, "", "", "", json.dumps(payload), 1, now, "bench")
            for kind, payload in quotas.items()
            for project in further
        ],
    )


_SCOPE_COLUMNS = "project, domain, workflow, launch_plan"
#: The revisions that stored the attributes but for the last, the oldest of which another author made.
_HISTORY = (
    "INSERT INTO revisions (number, created_at, author)"
    " SELECT version, updated_at, CASE version WHEN 1 THEN :rare ELSE updated_by END FROM attributes"
    " WHERE version < :count",
    f"INSERT INTO revision_changes (revision, ordinal, kind, name, {_SCOPE_COLUMNS}, after)"
    f" SELECT version, 0, kind, '', {_SCOPE_COLUMNS}, payload FROM attributes WHERE version < :count",
)


def _copy(database: str, rows: Iterable[tuple[Any, ...]]) -> int:
    """Store rows the quickest way that each database has."""
    url = make_url(database)
    columns = ", ".join(_COLUMNS)
    if url.get_backend_name() == "sqlite":
        with sqlite3.connect(url.database or "") as connection:
            marks = ", ".join("?" * len(_COLUMNS))
            connection.execute("PRAGMA journal_mode=WAL")
            count = connection.executemany(f"INSERT INTO attributes ({columns}) VALUES ({marks})", rows).rowcount
        connection.close()
        return count
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as server:
        with server.cursor() as cursor, cursor.copy(f"COPY attributes ({columns}) FROM STDIN") as copy:
            count = 0
            for row in rows:
                copy.write_row(row)
                count += 1
        server.execute("VACUUM ANALYZE attributes")
    return count


def _rows(projects: int, now: datetime) -> Iterator[tuple[Any, ...]]:
    """Every attribute, kind by kind as the table keeps them; each was stored by a revision of its own."""
    kinds = load_settings(None, {}, {}).kinds
    begun_at = now.replace(tzinfo=None) - timedelta(days=365)
    versions = itertools.count(1)
    # Quotas would bound what is measured.
    for kind in sorted((kind for kind in kinds if not kind.is_quota), key=lambda kind: kind.name):
        payloads = [json.dumps(kind.read(payload)) for payload in _PAYLOADS[kind.name]]
        for count, scope in enumerate(_scopes(projects, kind.levels, kind.name in _BELOW)):
            place = scope.project, scope.domain, scope.workflow, scope.launch_plan
            payload = payloads[count % len(payloads)].replace(_OWN, f"{scope.project}-{count}")
            version = next(versions)
            at = (begun_at + timedelta(seconds=version)).isoformat(sep=" ", timespec="microseconds")
            yield kind.name, *place, payload, version, at, "bench"


#: The kinds that workflows and launch plans set as well.
_BELOW = ("TASK_RESOURCE", "QUALITY_OF_SERVICE_SPECIFICATION", "WORKFLOW_EXECUTION_CONFIG", "CLUSTER_ASSIGNMENT")


def _scopes(projects: int, levels: Iterable[Level], below: bool) -> Iterator[Scope]:
    allowed = set(levels)
    for number in range(projects):
        project = project_name(number)
        if Level.PROJECT in allowed:
            yield Scope(project=project)
        for domain in DOMAINS:
            yield Scope(project=project, domain=domain)
            if below:
                for each in range(WORKFLOWS):
                    workflow = workflow_name(each)
                    yield Scope(project=project, domain=domain, workflow=workflow)
                    yield Scope(project=project, domain=domain, workflow=workflow, launch_plan=plan_name(each))


def _task_resources(cpu: int) -> dict[str, Any]:
    return {
        "defaults": {"cpu": str(cpu), "memory": f"{cpu * 256}Mi"},
        "limits": {"cpu": str(cpu * 4), "memory": f"{cpu * 2}Gi"},
    }


#: A placeholder in a payload for a word that is unique to the row.
_OWN = "own"
#: Several payloads of each kind, given out in turn; their numbers share no factor with the scopes of a project.
_PAYLOADS: dict[str, list[dict[str, Any]]] = {
    "TASK_RESOURCE": [_task_resources(cpu) for cpu in range(1, 8)],
    "CLUSTER_RESOURCE": [
        {"attributes": {"projectQuotaCpu": str(cpu), "projectQuotaMemory": "5Ti", "account": _OWN}}
        for cpu in range(1000, 1700, 100)
    ],
    "EXECUTION_QUEUE": [{"tags": tags} for tags in (["critical"], ["default"], ["gpu", "default"])],
    "EXECUTION_CLUSTER_LABEL": [{"value": "anywhere"}, {"value": "near"}],
    "QUALITY_OF_SERVICE_SPECIFICATION": [{"tier": tier} for tier in ("HIGH", "MEDIUM", "LOW")],
    "PLUGIN_OVERRIDE": [
        {"overrides": [{"task_type": "spark", "plugin_id": [plugin], "missing_plugin_behavior": "USE_DEFAULT"}]}
        for plugin in ("spark-3.4", "spark-3.5", "spark-connect")
    ],
    "WORKFLOW_EXECUTION_CONFIG": [
        {
            "max_parallelism": parallelism,
            "security_context": {"run_as": {"k8s_service_account": _OWN}},
            "labels": {"values": {"team": f"search-{parallelism}", "cost-centre": "4711"}},
            "interruptible": parallelism % 2 == 0,
            "envs": {"values": [{"key": "LOG_LEVEL", "value": "info"}]},
        }
        for parallelism in range(5, 12)
    ],
    "CLUSTER_ASSIGNMENT": [{"cluster_pool_name": "batch"}, {"cluster_pool_name": "training"}],
    "WORKFLOW_PRIORITY": [{"priority": priority} for priority in range(10, 80, 10)],
}
