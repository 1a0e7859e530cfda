"""Every operation that can be tried first leaves every row of every table as it is, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from admin.app import all_operations
from tests.support.agents import PlayedAgent, played_agent
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    create,
    identifier,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_label,
    put_pool,
    register_plan,
    register_workflow,
)

SLOW_ON = ("postgresql",)

_KEYS = {"project": PROJECT, "domain": DOMAIN}
_LABEL = {"resource_type": "EXECUTION_CLUSTER_LABEL", "payload": {"value": "idle"}}
_ENTRY = {**_LABEL, **_KEYS}
_SELECTOR = {"selector": {**_KEYS, "filters": "eq(phase,QUEUED)"}, "cause": "why"}
_CLUSTER_BODY = {"cluster": {"name": "new", "description": "d"}}
_GROUP_BODY = {"group": {"name": "new", "users": ["ana"]}}
_MEMBERS = {"name": "new", "members": [{"id": "idle"}]}
_SCOPES = {
    "domain": DOMAIN,
    "project": PROJECT,
    "project_domain": f"{PROJECT}/{DOMAIN}",
    "workflow": f"{PROJECT}/{DOMAIN}/flow",
    "launch_plan": f"{PROJECT}/{DOMAIN}/flow/plan",
}
_GRAPH = {"graph": {"nodes": {"a": {"metadata": {"type": "cluster"}}}, "edges": []}}
_PUT = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "idle"}}}}
#: What is asked of each operation that can be tried first: the path's parts, or the query, and the body.
WHAT_IFS: dict[str, tuple[str, Any]] = {
    **{
        f"{method} {level}_attributes": (f"{level}_attributes/{path}{query}", body)
        for level, path in _SCOPES.items()
        for method, query, body in (
            ("PUT", "", _PUT),
            ("PATCH", "?resource_type=3", {"set": {"value": "idle"}}),
            ("DELETE", "?resource_type=3", {}),
        )
    },
    "POST attribute_changes": ("attribute_changes", {"changes": [_ENTRY]}),
    "POST executions": ("executions", {**_KEYS, "name": "new", "spec": {"job": JOB, **pool("busy")}}),
    "POST executions/relaunch": ("executions/relaunch", {"id": {**_KEYS, "name": "waits"}, "name": "new"}),
    "POST executions/recover": ("executions/recover", {"id": {**_KEYS, "name": "failed"}, "name": "new"}),
    "DELETE executions": (f"executions/{PROJECT}/{DOMAIN}/runs", {"cause": "why"}),
    "POST executions/terminate": ("executions/terminate", _SELECTOR),
    "POST executions/redecide": ("executions/redecide", _SELECTOR),
    "POST clusters": ("clusters", _CLUSTER_BODY),
    "PUT clusters": ("clusters/idle", {"cluster": {"name": "idle", "description": "other"}}),
    "DELETE clusters": ("clusters/idle?force=true", {}),
    "POST pools": ("pools", {"pool": _MEMBERS}),
    "PUT pools": ("pools/busy", {"pool": {**_MEMBERS, "name": "busy"}}),
    "DELETE pools": ("pools/busy?force=true", {}),
    "POST labels": ("labels", {"label": _MEMBERS}),
    "PUT labels": ("labels/idle", {"label": {"name": "idle", "members": [{"id": "busy"}]}}),
    "DELETE labels": ("labels/idle?force=true", {}),
    **{
        f"POST clusters/{word}": (f"clusters/busy/{word}", {"reason": "why"})
        for word in ("enable", "disable", "cordon", "uncordon", "drain", "undrain", "admit")
    },
    "POST cluster_switches": ("cluster_switches", {"switch": "drain", "clusters": ["busy"], "reason": "why"}),
    "PUT clusters/description": ("clusters/idle/description", _GRAPH),
    "PATCH clusters/description": ("clusters/idle/description", _GRAPH),
    "DELETE clusters/description": ("clusters/idle/description", {}),
    "POST groups": ("groups", _GROUP_BODY),
    "PUT groups": ("groups/team", {"group": {"name": "team", "users": []}}),
    "DELETE groups": ("groups/team?force=true", {}),
    "POST grants": ("grants", {"grant": {"role": "viewer", "group": "team", "project": PROJECT}}),
    "DELETE grants": ("grants/viewer:group:team", {}),
    "POST cluster_groups": ("cluster_groups", {"cluster_group": {"name": "new", "clusters": ["idle"]}}),
    "PUT cluster_groups": ("cluster_groups/halls", {"cluster_group": {"name": "halls", "clusters": []}}),
    "DELETE cluster_groups": ("cluster_groups/halls?force=true", {}),
    "POST use_grants": ("use_grants", {"use_grant": {"cluster": "idle", "group": "team"}}),
    "DELETE use_grants": ("use_grants/pool:idle:group:team", {}),
    "POST token_pools": ("token_pools", {"token_pool": {"name": "new", "capacity": 1}}),
    "PUT token_pools": ("token_pools/hive", {"token_pool": {"name": "hive", "capacity": 1}}),
    "DELETE token_pools": ("token_pools/hive?force=true", {}),
    "POST placements": ("placements", {**_KEYS, "spec": {"job": JOB, **pool("busy")}, "changes": [_ENTRY]}),
    "POST simulations": ("simulations", {"changes": [_ENTRY], "since": "1h"}),
    "POST effective_attributes": ("effective_attributes", {**_KEYS, "changes": [_ENTRY]}),
    "POST projects": ("projects", {"project": {"id": "new"}}),
    "PUT projects": (f"projects/{PROJECT}", {"name": "other", "description": ""}),
    "PATCH projects": (f"projects/{PROJECT}", {"description": "other"}),
    "POST workflows": ("workflows", {"id": identifier("other"), "spec": {"job": JOB}}),
    "POST launch_plans": (
        "launch_plans",
        {"id": identifier("other"), "state": "ACTIVE", "spec": {"workflow_id": {"name": "flow", "version": "v1"}}},
    ),
    "POST rollbacks": ("rollbacks?force=true", {"to": 0, "everything": True}),
    "POST users": ("users", {"user": {"name": "new"}}),
    "PUT users": ("users/ana", {"user": {"name": "ana", "description": "other"}}),
    "DELETE users": ("users/ana", {}),
}
_ALWAYS_TRIED = ("placements", "simulations", "effective_attributes")


def _name(method: str, path: str) -> str:
    words = [word for word in path.removeprefix(f"{API}/").split("/") if not word.startswith("<")]
    return f"{method} {'/'.join(words)}"


@pytest.fixture(scope="module")
def agent(shared_app: Flask) -> PlayedAgent:
    """The agent of a busy cluster; beside it there are some of every noun, and executions that ended, run and wait."""
    api = shared_app.test_client()
    agent = played_agent(api, shared_app.extensions["rainbow"], "busy")
    played_agent(api, shared_app.extensions["rainbow"], "idle")
    put_pool(api, "busy", ["busy"])
    put_pool(api, "idle", ["idle"])
    put_label(api, "idle", ["idle"])
    ok(register_workflow(api, "flow"))
    ok(register_plan(api, "plan", "flow"))
    for level in _SCOPES:
        keys = {"workflow": "flow", "launch_plan": "plan"}
        put_attribute(api, level.replace("_", "-"), "execution_cluster_label", {"value": "idle"}, **keys)
    ok(api.put(f"{API}/clusters/idle/description", json=_GRAPH))
    bodies: dict[str, Any] = {
        "token_pools": {"token_pool": {"name": "hive", "capacity": 2}},
        "groups": {"group": {"name": "team", "users": []}},
        "cluster_groups": {"cluster_group": {"name": "halls", "clusters": ["idle"]}},
    }
    for noun, body in bodies.items():
        ok(api.post(f"{API}/{noun}", json=body))
    for name in ("failed", "runs"):
        ok(create(api, name, **pool("busy")))
        agent.start()
    agent.finish(["failed"], "FAILED", exit_code=1)
    ok(create(api, "waits", **pool("busy")))
    return agent


def test_every_operation_with_a_dry_run_is_tried() -> None:
    tried = {
        _name(operation.method, operation.path)
        for operation in all_operations()
        if (operation.query and "dry_run" in operation.query().fields)
        or (operation.method == "POST" and operation.path.removeprefix(f"{API}/") in _ALWAYS_TRIED)
    }
    assert tried == WHAT_IFS.keys()


def test_what_is_only_tried_leaves_every_table_as_it_is(agent: PlayedAgent, shared_app: Flask) -> None:
    with nothing_stored(context_of(shared_app)):
        for name, (address, body) in WHAT_IFS.items():
            if address not in _ALWAYS_TRIED:
                address += f"{'&' if '?' in address else '?'}dry_run=true"
            answer = ok(agent.client.open(f"{API}/{address}", method=name.partition(" ")[0], json=body))
            assert answer.get("dry_run", True) is True, name
