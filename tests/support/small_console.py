"""An admin with something to see on the pages of the console: clusters, settings, and executions in each phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from admin.testing import running_admin
from tests.support.http_agents import Document, HttpAgent, write_configuration

PROJECT, DOMAIN = "flytesnacks", "development"
#: A name that is markup, and text that runs from right to left, as people may write it into any field.
HOSTILE = (
    "<script>alert(1)</script> <b>bold</b> \u202eright to left\u202c \u05e2\u05d1\u05e8\u05d9\u05ea 🌈 " + "w" * 300
)

_CAPACITY = {"cpu": 64, "memory": "256Gi", "gpu": 8, "nodes": 4}


@dataclass(frozen=True, kw_only=True)
class SmallConsole:
    """A running admin, and the agents of its clusters."""

    url: str
    agents: Mapping[str, HttpAgent]
    token: str | None = None  #: that operators share

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Document:
        """What REST answers."""
        token = token or self.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = requests.request(method, f"{self.url}/api/v1/{path}", json=body, headers=headers, timeout=60)
        assert answer.ok, answer.text
        document: Document = answer.json()
        return document

    def create(self, name: str, domain: str = DOMAIN, **spec: Any) -> None:
        """Create an execution."""
        given = {"command": ["true"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}, **spec}
        job = {key: given.pop(key) for key in ("command", "image", "resources") if key in given}
        body = {"project": PROJECT, "domain": domain, "name": name, "spec": {"job": job, **given}}
        self.call("POST", "executions", body)


def hold_licences(console: SmallConsole) -> None:
    """A token pool of which somebody holds a token."""
    console.call("PUT", "token_pools/licences", {"token_pool": {"capacity": 2}})
    claim = {"token": "etl-1", "pools": {"licences": 1}, "project": PROJECT, "domain": DOMAIN, "lease_seconds": 600}
    console.call("POST", "token_allocations", {"claim": claim})


@contextmanager
def running_small_console(directory: Path, token: str | None = None, **sections: Any) -> Iterator[SmallConsole]:
    """An admin in this process, with three clusters of which one was never seen; none of the others falls silent.

    With a token every request needs one: this, which operators share, or that of a user.
    """
    if token is not None:
        shared = directory / "token"
        shared.write_text(token)
        shared.chmod(0o600)
        sections = {**sections, "server": {"apiTokenFile": str(shared)}}
    clusters = {
        "poolNameClusterMap": {"gpu": [{"id": "east", "weight": 2}, {"id": "west"}], "spare": [{"id": "north"}]},
        "clusterConfigs": [{"name": name} for name in ("east", "west", "north")],
    }
    path = write_configuration(directory, clusters=clusters)
    never = {"unreachableSeconds": 3600, "lostSeconds": 7200}
    with running_admin({**yaml.safe_load(path.read_text()), "agents": never, **sections}) as url:
        agents = {name: HttpAgent(url=url, cluster=name) for name in ("east", "west")}
        for agent in agents.values():
            agent.register(engine="local")
            agent.sync(report={"capacity": _CAPACITY, "free": {**_CAPACITY, "cpu": 40}})
        yield SmallConsole(url=url, agents=agents, token=token)


def fill(console: SmallConsole) -> None:
    """Settings, and executions: one that runs, one that succeeded, one that failed, and some that wait."""
    pool = {"cluster_assignment": {"cluster_pool_name": "gpu"}}
    body = {
        "attributes": {"project": PROJECT, "domain": DOMAIN, "matching_attributes": pool},
        "message": "Training needs GPUs.",
    }
    console.call("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", body)
    for name, cluster in (("train", "east"), ("evaluate", "west"), ("tune", "west")):
        console.create(name, cluster=cluster)
    east, west = console.agents["east"], console.agents["west"]
    [train] = east.take()
    east.report(train, "RUNNING", native_id="4711")
    east.prints(train, "epoch 1: loss 0.52\nepoch 2: loss 0.41\n")
    evaluated, failed = sorted(west.take(2), key=lambda lease: str(lease["id"]))
    for lease, end in ((evaluated, {"type": "SUCCEEDED"}), (failed, {"type": "FAILED", "exit_code": 1})):
        west.report(lease, "RUNNING")
        west.report(lease, **end)
    console.call("POST", "clusters/west/cordon", {"reason": "A disk is replaced."})
    console.create("waits-for-west", cluster="west")
    for number in range(4):
        console.create(f"report-{number}")
    console.create("too-early", cluster="north")
    register_launch_plan(console)


def register_launch_plan(console: SmallConsole) -> None:
    """A workflow with an input of each sort, and an active launch plan that fixes one of them."""
    id = {"project": PROJECT, "domain": DOMAIN, "version": "v1"}
    inputs = {
        "data": {"type": "string", "description": "Where the examples are."},
        "epochs": {"type": "integer", "default": 3},
        "mode": {"type": "enum", "values": ["quick", "thorough"], "default": "quick"},
        "shuffle": {"type": "boolean", "default": True},
        "rates": {"type": "list", "of": "float", "default": [0.1]},
        "team": {"type": "string"},
    }
    job = {"command": ["echo", "{{ inputs.data }}", "{{ inputs.epochs }}"], "resources": {"requests": {"cpu": "1"}}}
    console.call("POST", "workflows", {"id": {**id, "name": "training"}, "spec": {"inputs": inputs, "job": job}})
    spec = {
        "workflow_id": {"name": "training", "version": "v1"},
        "description": "Trains on what came in overnight.",
        "fixed_inputs": {"team": "search"},
    }
    console.call("POST", "launch_plans", {"id": {**id, "name": "nightly"}, "spec": spec, "state": "ACTIVE"})


def describe(console: SmallConsole, cluster: str) -> None:
    """Describe a cluster of four nodes, each with two sockets of 16 cores and a GPU."""
    around: list[int | None] = [None, *[0] * 4, *(node for node in range(1, 5) for _ in range(2))]
    types = ["cluster", *["node"] * 4, *["socket"] * 8]
    for socket in range(5, 13):
        types += [*["core"] * 16, "gpu"]
        around += [socket] * 17
    nodes = {str(number): {"metadata": {"type": type_}} for number, type_ in enumerate(types)}
    edges = [
        {"source": str(outer), "target": str(number), "relation": "contains"}
        for number, outer in enumerate(around)
        if outer is not None
    ]
    console.call("PUT", f"clusters/{cluster}/description", {"graph": {"nodes": nodes, "edges": edges}})
