"""Calls of the API that tests of the fleet and of executions share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.test import TestResponse

from admin.services.context import Context
from admin.store.database import metadata
from tests.support.small_fleets import group

API = "/api/v1"
PROJECT, DOMAIN = "flytesnacks", "development"
JOB = {"command": ["true"]}

LEVELS = {
    "domain": "domain_attributes/{domain}",
    "project": "project_attributes/{project}",
    "project-domain": "project_domain_attributes/{project}/{domain}",
    "workflow": "workflow_attributes/{project}/{domain}/{workflow}",
    "launch-plan": "launch_plan_attributes/{project}/{domain}/{workflow}/{launch_plan}",
}


def ok(response: TestResponse) -> Any:
    """The answer of something that succeeded."""
    assert response.status_code == 200, response.get_data(as_text=True)
    return response.json


def refused(response: TestResponse, status: int, error: str, field: str | None = None) -> dict[str, Any]:
    """The answer of something that was refused, in the documented shape and naming the field."""
    answer: dict[str, Any] = response.json or {}
    assert (response.status_code, answer.get("error")) == (status, error), response.get_data(as_text=True)
    assert len(answer["message"]) > 10
    if field is not None:
        assert field in [detail.get("field") for detail in answer["details"]], answer
    return answer


def get(api: FlaskClient, path: str) -> Any:
    return ok(api.get(f"{API}/{path}"))


def pages(api: FlaskClient, path: str, rows: str) -> Iterator[list[Any]]:
    """The rows of each page of a list, whose path has a query."""
    token = ""
    while True:
        page = get(api, f"{path}{token}")
        yield page[rows]
        if "token" not in page:
            return
        token = f"&token={page['token']}"


def asked(
    name: str | None = None,
    *,
    project: str = PROJECT,
    domain: str = DOMAIN,
    inputs: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """The body of a request; an ad hoc job unless it launches something else."""
    if not spec.keys() & {"job", "jobspec", "launch_plan"}:
        spec["job"] = JOB
    body: dict[str, Any] = {"project": project, "domain": domain, "spec": spec}
    return body | {key: value for key, value in (("name", name), ("inputs", inputs)) if value is not None}


def create(api: FlaskClient, name: str | None = None, **spec: Any) -> TestResponse:
    return api.post(f"{API}/executions", json=asked(name, **spec))


def created(api: FlaskClient, name: str | None = None, **spec: Any) -> Any:
    """A new execution."""
    answer = ok(create(api, name, **spec))
    assert answer["created"] is True
    return answer["execution"]


def execution(api: FlaskClient, name: str, project: str = PROJECT, domain: str = DOMAIN) -> Any:
    return get(api, f"executions/{project}/{domain}/{name}")


def explanation(api: FlaskClient, name: str, query: str = "", project: str = PROJECT, domain: str = DOMAIN) -> Any:
    return get(api, f"executions/{project}/{domain}/{name}/explanation{query}")


def pool(name: str) -> dict[str, Any]:
    """The part of a spec that asks for a pool."""
    return {"cluster_assignment": {"cluster_pool_name": name}}


def label(name: str) -> dict[str, Any]:
    """The part of a spec that asks for a label."""
    return {"execution_cluster_label": {"value": name}}


def put_pool(api: FlaskClient, name: str, members: Mapping[str, float] | Iterable[str], **more: Any) -> Any:
    return ok(api.put(f"{API}/pools/{name}", json={"pool": group(members, **more)}))


def put_label(api: FlaskClient, name: str, members: Mapping[str, float] | Iterable[str], **more: Any) -> Any:
    return ok(api.put(f"{API}/labels/{name}", json={"label": group(members, **more)}))


def put_cluster(api: FlaskClient, name: str, **payload: Any) -> Any:
    return ok(api.put(f"{API}/clusters/{name}", json={"cluster": payload}))


def switch(api: FlaskClient, cluster: str, word: str, **body: Any) -> Any:
    """Enable, disable, cordon or uncordon a cluster."""
    return ok(api.post(f"{API}/clusters/{cluster}/{word}", json=body))


def report(api: FlaskClient, cluster: str, **state: Any) -> Any:
    return ok(api.put(f"{API}/clusters/{cluster}/state", json=state))["cluster"]


def put_attribute(api: FlaskClient, level: str, payload_key: str, payload: Any, **scope: str) -> Any:
    path = LEVELS[level].format(**{"project": PROJECT, "domain": DOMAIN, **scope})
    return ok(api.put(f"{API}/{path}", json={"attributes": {"matching_attributes": {payload_key: payload}}}))


def delete_attribute(api: FlaskClient, level: str, resource_type: str | int, **scope: str) -> Any:
    path = LEVELS[level].format(**{"project": PROJECT, "domain": DOMAIN, **scope})
    return ok(api.delete(f"{API}/{path}?resource_type={resource_type}"))


def new_project(api: FlaskClient, id: str) -> str:
    ok(api.post(f"{API}/projects", json={"project": {"id": id}}))
    return id


def identifier(name: str, version: str = "v1", project: str = PROJECT, domain: str = DOMAIN) -> dict[str, str]:
    return {"project": project, "domain": domain, "name": name, "version": version}


def register_workflow(api: FlaskClient, name: str, version: str = "v1", **spec: Any) -> TestResponse:
    place = {key: spec.pop(key) for key in ("project", "domain") if key in spec}
    body = {"id": identifier(name, version, **place), "spec": {"job": JOB, **spec}}
    return api.post(f"{API}/workflows", json=body)


def register_plan(
    api: FlaskClient, name: str, workflow: str, version: str = "v1", state: str = "ACTIVE", **spec: Any
) -> TestResponse:
    place = {key: spec.pop(key) for key in ("project", "domain") if key in spec}
    by: dict[str, Any] = {key: spec.pop(key) for key in ("claimed_by", "message") if key in spec}
    spec = {"workflow_id": {"name": workflow, "version": "v1"}, **spec}
    body = {"id": identifier(name, version, **place), "state": state, "spec": spec, **by}
    return api.post(f"{API}/launch_plans", json=body)


def row_counts(context: Context) -> dict[str, int]:
    """How many rows every table has."""
    counts = ", ".join(f"(SELECT count(*) FROM {table}) AS {table}" for table in metadata.tables)
    with context.database.reading() as connection:
        return dict(connection.exec_driver_sql(f"SELECT {counts}").one()._mapping)


def stored(context: Context) -> dict[str, list[str]]:
    """Every row of every table."""
    with context.database.reading() as connection:
        return {name: sorted(map(repr, connection.execute(select(table)))) for name, table in metadata.tables.items()}


@contextmanager
def nothing_stored(context: Context) -> Iterator[None]:
    """Check that what happens inside leaves every table as it was."""
    context.token_uses.write(context.database)  # of what was done before
    before = stored(context)
    yield
    assert stored(context) == before
