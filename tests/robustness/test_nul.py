"""The character NUL, which PostgreSQL cannot store: wherever a request has text, it is refused or replaced."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.api.operations import Operation
from admin.app import all_operations
from admin.core.changes import Expectation
from admin.messages.execution_lists import matching_token
from admin.services import users
from admin.services.changeable.base import ChangeOptions
from tests.support.agents import played_agent
from tests.support.apps import context_of
from tests.support.placing import DOMAIN, JOB, PROJECT, asked, create, ok, register_plan, register_workflow

#: What is refused only when it is stored, without the name of the field.
BY_DATABASE = "The database cannot store a value"
NUL = "a\0b"
AUTHOR = {"message": "why", "claimed_by": "me"}
LABEL = {"execution_cluster_label": {"value": "mycluster"}}
ENTRY = {"resource_type": "EXECUTION_CLUSTER_LABEL", "project": PROJECT, "payload": {"value": "mycluster"}}
DEFINITIONS = [
    {"cluster_definition": {"name": "c", "description": "d"}},
    {"pool_definition": {"name": "p", "members": [{"id": "c"}]}},
    {"label_definition": {"name": "l", "members": [{"id": "c"}]}},
    {"user_definition": {"name": "u", "description": "d"}},
    {"project_definition": {"id": "q", "name": "n", "description": "d"}},
    {"group_definition": {"name": "g", "users": ["u"], "groups": ["h"], "description": "d"}},
    {"grant_definition": {"role": "viewer", "user": "u", "project": PROJECT, "domain": DOMAIN}},
    {"cluster_group_definition": {"name": "cg", "clusters": ["c"], "description": "d"}},
    {"use_grant_definition": {"pool": "p", "project": PROJECT}},
    {"token_pool_definition": {"name": "tp", "capacity": 1, "caps": {"project": 1}, "description": "d"}},
]
TOKENS = {"token": "t", "pools": {"hive": 1}, "project": PROJECT, "domain": DOMAIN, "execution": "one"}
ID = {"project": PROJECT, "domain": DOMAIN, "name": "one"}
VERSIONED = {**ID, "version": "v9"}
EXECUTION = asked("new", job={**JOB, "environment": {"A": "b"}, "labels": {"k": "v"}, "working_directory": "w"})
REPORT = {"engine": "e", "engine_version": "1", "capacity": {"cpu": "1"}, "plugins": ["p"], "properties": {"k": "v"}}
HELD = {"id": ID, "attempt": 1, "uid": "u"}
EVENT = {**HELD, "event": "1", "type": "RUNNING", "native_id": "n", "nodes": ["n"], "reason": "r", "message": "m"}
OUTPUT = {"path": "p", "content_base64": "eA==", "size": 1}
SYNC = {
    "agent": "agent-1",
    "sequence": 1,
    "instance": "i",
    "host": "h",
    "report": REPORT,
    "holding": [HELD],
    "events": [{**EVENT, "outputs": [OUTPUT], "at": "x", "started_at": "x"}],
    "logs": [{**HELD, "stream": "stdout", "offset": 0, "data": "text"}],
}
NAMESPACE_REPORT = {
    "namespace": "n",
    "project": PROJECT,
    "domain": DOMAIN,
    "digest": "d",
    "exists": True,
    "objects": [{"object": "Secret/s", "state": "failed", "message": "m"}],
}
#: Where a page of executions begins.
AFTER = matching_token((datetime(2026, 3, 1, tzinfo=UTC), 1))
#: A body that each operation takes, by the name of its definition.
VERTEX = {"metadata": {"type": "node", "name": "n1", "unit": "", "colour": "red"}}
GRAPH = {"nodes": {"a": VERTEX, "b": {"metadata": {"type": "core"}}}, "edges": [{"source": "a", "target": "b"}]}
BODIES: dict[str, dict[str, Any]] = {
    "RegisterClusterBody": {"secret": "s" * 20, "report": {"a": "b"}, "description": {"graph": GRAPH}},
    "RotateBody": {"overlap": "10m"},
    "DescriptionBody": {"graph": GRAPH, "subsystems": {"io": {"graph": {"nodes": {"x": VERTEX}}}}, **AUTHOR},
    "DescriptionPatchBody": {"graph": GRAPH, "subsystems": {"io": {"graph": {"nodes": {"x": VERTEX}}}}, **AUTHOR},
    "SyncBody": SYNC,
    "NamespacesBody": {"digest": "d", "known": {"n": "d"}, "reports": [NAMESPACE_REPORT]},
    "PutBody": {"attributes": {"matching_attributes": LABEL}, **AUTHOR},
    "PatchBody": {"set": {"value": "mycluster"}, **AUTHOR},
    "DeleteBody": {"resource_type": "3", **AUTHOR},
    "ChangesBody": {"changes": [ENTRY, *DEFINITIONS], **AUTHOR},
    "ProposalBody": {"project": PROJECT, "domain": DOMAIN, "workflow": "w", "changes": [ENTRY]},
    "CreationBody": EXECUTION,
    "RepeatBody": {"id": ID, "name": "again"},
    "StateBody": {"state": "ARCHIVED", "claimed_by": "me"},
    "SwitchesBody": {"switch": "drain", "clusters": ["local"], "reason": "why", "claimed_by": "me", "deadline": "1m"},
    "CauseBody": {"cause": "why", "claimed_by": "me"},
    "EndBody": {"cause": "why", "claimed_by": "me", "give_up": False},
    "EndManyBody": {"selector": {"project": PROJECT, "domain": DOMAIN, "filters": "eq(name,x)"}, "cause": "why"},
    "RedecideBody": {
        "selector": {"project": PROJECT, "domain": DOMAIN, "filters": "eq(name,x)"},
        "cause": "why",
        "limit": 1,
        "token": AFTER,
    },
    "ClusterBody": {"cluster": {"name": "mine", "description": "d", "properties": {"k": "v"}}, **AUTHOR},
    "PoolBody": {"pool": {"name": "one", "members": [{"id": "local"}], "description": "d"}, **AUTHOR},
    "LabelBody": {"label": {"name": "one", "members": [{"id": "local"}], "description": "d"}, **AUTHOR},
    "UserBody": {"user": {"name": "one", "description": "d"}, **AUTHOR},
    "UserTokenBody": {
        "name": "laptop",
        "expires": "1d",
        "narrowed": {"role": "viewer", "project": PROJECT, "domain": DOMAIN, "clusters": ["local"]},
    },
    "GroupBody": {"group": {"name": "one", "users": ["u"], "groups": ["h"], "description": "d"}, **AUTHOR},
    "ClusterGroupBody": {"cluster_group": {"name": "one", "clusters": ["local"], "description": "d"}, **AUTHOR},
    "TokenPoolBody": {"token_pool": {"name": "one", "capacity": 1, "description": "d"}, **AUTHOR},
    "TokenClaimBody": {"claim": TOKENS},
    "TokenRenewalBody": {"renewal": {**TOKENS, "number": 1}},
    "TokenReleaseBody": {"release": TOKENS},
    "UseGrantBody": {"use_grant": {"cluster": "local", "user": "u"}, **AUTHOR},
    "GrantBody": {"grant": {"role": "viewer", "group": "one", "project": PROJECT, "domain": DOMAIN}, **AUTHOR},
    "AuthorshipFields": AUTHOR,
    "EndReconciliationBody": {"reason": "why", "claimed_by": "me", "state": "waiting", "unknown_count": 0},
    "SwitchBody": {"reason": "why", "claimed_by": "me"},
    "DrainBody": {"reason": "why", "claimed_by": "me", "deadline": "10m"},
    "ReportBody": REPORT,
    "PlacementBody": {"project": PROJECT, "domain": DOMAIN, "name": "n", "spec": {"job": JOB}, "changes": [ENTRY]},
    "SimulationBody": {"changes": [ENTRY], "since": "1h", "project": PROJECT, "domain": DOMAIN, "token": AFTER},
    "CreateBody": {
        "project": {"id": "new", "name": "n", "description": "d", "labels": {"values": {"k": "v"}}},
        **AUTHOR,
    },
    "UpdateBody": {"name": "n", "description": "d", "labels": {"values": {"k": "v"}}, **AUTHOR},
    "RegisterBody": {"id": VERSIONED, "spec": {"job": JOB, "description": "d"}, **AUTHOR},
    "RegisterPlanBody": {
        "id": VERSIONED,
        "spec": {"workflow_id": {"name": "flow", "version": "v1"}},
        "state": "ACTIVE",
        **AUTHOR,
    },
    "LaunchPlanStateBody": {"state": "ACTIVE", **AUTHOR},
    "RollbackBody": {"to": 0, "project": PROJECT, "domain": DOMAIN, "workflow": "w", **AUTHOR},
}
PATH_NAMES = {
    "project": PROJECT,
    "domain": DOMAIN,
    "id": PROJECT,
    "workflow": "flow",
    "launch_plan": "plan",
    "version": "v1",
    "number": "1",
    "prefix": "00",
}
NAMES = {"clusters": "mine", "workflows": "flow", "launch_plans": "plan", "active_launch_plans": "plan"}
OPERATIONS = {f"{operation.method} {operation.path}": operation for operation in all_operations()}


@pytest.fixture(scope="module")
def token(shared_app: Flask) -> str:
    """The token of an agent; an execution that it might hold, a workflow and a launch plan exist too."""
    api = shared_app.test_client()
    ok(register_workflow(api, "flow"))
    ok(register_plan(api, "plan", "flow"))
    ok(create(api, "one"))
    return played_agent(api, shared_app.extensions["rainbow"], "mine").token


@pytest.fixture(autouse=True)
def _without_users(shared_app: Flask) -> Iterator[None]:
    """Delete the users that a test has made: with one, every other request would need a token."""
    yield
    context = context_of(shared_app)
    for user in users.list_users(context, service_account=None, after=None, limit=100)[0]:
        users.put_user(context, user.name, None, Expectation(), ChangeOptions())


def parameters(operation: Operation) -> list[str]:
    return [part.strip("<>").removeprefix("rest:") for part in operation.path.split("/") if part.startswith("<")]


def path_of(operation: Operation, **names: str) -> str:
    path = operation.path
    for name in parameters(operation):
        usual = NAMES.get(path.split("/")[3], "one") if name == "name" else PATH_NAMES[name]
        usual = "gone" if usual == "mine" and operation.method == "DELETE" else usual
        for written in (f"<{name}>", f"<rest:{name}>"):
            path = path.replace(written, quote(names.get(name, usual), safe=""))
    return f"{path}?resource_type=3" if operation.method == "PATCH" and "_attributes" in path else path


def with_nul(value: Any) -> Iterator[Any]:
    """The same JSON with a NUL in one text or key, at each of them in turn."""
    if isinstance(value, str):
        yield value + NUL
        yield NUL
    elif isinstance(value, dict):
        for key, item in value.items():
            yield {**value, key + NUL: item}
            for changed in with_nul(item):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for changed in with_nul(item):
                yield [*value[:index], changed, *value[index + 1 :]]


def send(api: FlaskClient, token: str, operation: Operation, path: str, **more: Any) -> TestResponse:
    headers = {"Authorization": f"Bearer {token}"} if operation.path.endswith("/sync") else {}
    return api.open(path, method=operation.method, headers={**headers, **more.pop("headers", {})}, **more)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_nul_in_any_text_of_a_request_is_never_an_internal_error(shared: FlaskClient, token: str, name: str) -> None:
    operation = OPERATIONS[name]
    body = BODIES[operation.body.__name__] if operation.body else None
    answers = []
    for parameter in parameters(operation):
        for word in (NUL, "\0", PATH_NAMES.get(parameter, "local") + "\0"):
            path = path_of(operation, **{parameter: word})
            answers.append((path, send(shared, token, operation, path, json=body)))
    for field in operation.query().fields if operation.query else ():
        path = path_of(operation)
        path += f"{'&' if '?' in path else '?'}{field}={quote(NUL)}"
        answers.append((path, send(shared, token, operation, path, json=body)))
    for changed in with_nul(copy.deepcopy(body)):
        answers.append((repr(changed), send(shared, token, operation, path_of(operation), json=changed)))
    for header in ("Idempotency-Key", "If-Match", "If-None-Match", "X-Request-Id", "Authorization"):
        sent = send(shared, token, operation, path_of(operation), json=body, headers={header: NUL})
        answers.append((header, sent))
    bad = [(what, answer.text) for what, answer in answers if answer.status_code >= 500 or BY_DATABASE in answer.text]
    assert bad == []
