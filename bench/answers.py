"""Answers to operators: about settings, executions, clusters and changes, as each question is asked alone.

A million attributes are stored, a thousand clusters are configured, and ten thousand executions wait.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import stock
from bench.admins import admin_on, port_of
from bench.agents import Client
from bench.databases import Backend
from bench.figures import Figure
from bench.load import QUICK, Pace

NAME = "answers"
WAITING, FEW_WAITING = 10_000, 500
CLUSTERS, FEW_CLUSTERS = 1000, 40
#: Milliseconds that an answer may take.
PROMISED = 1000
_BATCH = 500
_TIMES = 5

_PROJECT, _DOMAIN = stock.project_name(0), stock.DOMAINS[0]
_PLACE = {"project": _PROJECT, "domain": _DOMAIN}
_SCOPE = f"project={_PROJECT}&domain={_DOMAIN}"
_OTHER = f"other_domain={stock.DOMAINS[1]}"
_EXECUTIONS = f"executions/{_PROJECT}/{_DOMAIN}"
#: A pool of its own, which the executions wait in; its members are the first clusters, and may be the next ones.
_POOL, _MEMBERS = "moving", 20


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, about one name or scope, or the first page of what is about the whole system."""

    what: str
    path: str
    body: dict[str, Any] | None = None  #: of a POST, which changes nothing


def _members(first: int) -> list[dict[str, Any]]:
    return [{"id": stock.cluster_name(number), "weight": 1} for number in range(first, first + _MEMBERS)]


def _pool_row(**scope: str) -> dict[str, Any]:
    return {"resource_type": "CLUSTER_ASSIGNMENT", **scope, "payload": {"cluster_pool_name": "training"}}


def _plan(what: str, *changes: dict[str, Any]) -> Question:
    return Question(what=what, path="attribute_changes?dry_run=true", body={"changes": list(changes)})


QUESTIONS = (
    Question(what="what applies at a scope, and who set it", path=f"effective_attributes?{_SCOPE}&provenance=true"),
    Question(what="nearest row of every kind", path=f"effective_attributes?domain={_DOMAIN}&nearest=true"),
    Question(what="what differs between two scopes", path=f"effective_attributes/comparison?{_SCOPE}&{_OTHER}"),
    Question(
        what="reach of a project's row in a domain",
        path=f"effective_attributes/reach?resource_type=0&limit=1000&{_SCOPE}",
    ),
    Question(
        what="reach of a domain's row, first page",
        path=f"effective_attributes/reach?resource_type=0&limit=1000&domain={_DOMAIN}",
    ),
    Question(what="where a pool is used, first page", path="uses?pool=training&reach=true"),
    Question(what="where a pool is used that nothing names", path="uses?pool=nowhere"),
    Question(what="where a cluster is used, first page", path="uses?cluster=cluster-1&reach=true"),
    Question(what="where a value is used", path="uses?resource_type=0&field=limits.cpu&value=12"),
    Question(what="settings of a project without effect", path=f"matchable_attributes/no_effect?{_SCOPE}"),
    Question(what="settings without effect, first page", path="matchable_attributes/no_effect"),
    Question(what="why an execution waits", path=f"{_EXECUTIONS}/w0/explanation"),
    Question(what="why an execution ended", path=f"{_EXECUTIONS}/ended/explanation"),
    Question(what="an execution's settings against today's", path=f"{_EXECUTIONS}/w0/comparison"),
    Question(what="executions, first page", path="executions?limit=100"),
    Question(what="executions by reason", path="execution_counts?by=reason"),
    Question(what="one cluster", path="clusters/cluster-1"),
    Question(what="clusters, first page", path="clusters?limit=1000"),
    Question(what="what a drain would do", path="clusters/cluster-1/drain?dry_run=true", body={}),
    Question(what="history, first page", path="timeline?limit=20"),
    Question(what="shares of a pool with every cluster", path="pools/training/shares"),
    _plan("plan of a domain's row", _pool_row(domain=_DOMAIN)),
    _plan("plan of a row that moves all that waits", _pool_row(**_PLACE)),
    _plan(
        "plan of a pool that moves all that waits", {"pool_definition": {"name": _POOL, "members": _members(_MEMBERS)}}
    ),
)


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    is_quick = pace == QUICK
    stock.fill(database, stock.THOUSAND * 10 if is_quick else stock.MILLION)
    with admin_on(database, clusters=FEW_CLUSTERS if is_quick else CLUSTERS) as admin:
        client = Client(port_of(admin))
        _let_wait(client, FEW_WAITING if is_quick else WAITING)
        for question in QUESTIONS:
            taken = sorted(_took(client, question) for _ in range(_TIMES + 1))[:-1]  # the first one fills caches
            middle = statistics.median(taken)
            yield Figure(
                bench=NAME,
                what=question.what,
                database=backend.name,
                value=middle,
                unit="ms",
                p50=middle,
                p99=taken[-1],
            )
        client.close()


def _let_wait(client: Client, number: int) -> None:
    """Executions that are not leased, in a pool of their own, and one that has ended."""
    rows = [
        {"pool_definition": {"name": _POOL, "members": _members(0)}},
        {**_pool_row(**_PLACE), "payload": {"cluster_pool_name": _POOL}},
        {"resource_type": "TASK_RESOURCE", "domain": _DOMAIN, "payload": {"limits": {"cpu": "64"}}},
    ]
    client.post("/attribute_changes", {"changes": rows})
    for start in range(0, number, _BATCH):
        executions = [{**_PLACE, "name": f"w{start + each}", "spec": {"job": stock.JOB}} for each in range(_BATCH)]
        client.post("/executions", {"executions": executions})
    client.post("/executions", {**_PLACE, "name": "ended", "spec": {"job": stock.JOB}})
    client.delete(f"/{_EXECUTIONS}/ended")


def _took(client: Client, question: Question) -> float:
    """Milliseconds that an answer takes, which must be a good one."""
    begin = time.monotonic()
    if question.body is None:
        client.get(f"/{question.path}")
    else:
        client.post(f"/{question.path}", question.body)
    return (time.monotonic() - begin) * 1000
