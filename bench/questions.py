"""The questions of operators: each with its request, about one name or scope, or for the first page of everything.

They are about the database that `bench.answers` fills.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench import stock

PROJECT, DOMAIN = stock.project_name(0), stock.DOMAINS[0]
PLACE = {"project": PROJECT, "domain": DOMAIN}
EXECUTIONS = f"executions/{PROJECT}/{DOMAIN}"
#: A pool of its own, which the executions wait in; its members are the first clusters, and may be the next ones.
POOL, MEMBERS = "moving", 20
#: What nothing uses yet: a label, a cluster and a pool of tokens that are defined over the API.
SPARE_LABEL, SPARE_CLUSTER, TOKENS = "spare", "spare-1", "hive"
#: The label of the executions, which their project sets.
LABEL = "labels.team"

_SCOPE = f"project={PROJECT}&domain={DOMAIN}"
_PLAN = f"{_SCOPE}&workflow={stock.workflow_name(7)}&launch_plan={stock.plan_name(7)}"
_OTHER = f"other_domain={stock.DOMAINS[1]}"
_NO_NAMES = "cluster=cluser-1&pool=movin&label=nearr&workflow=core.train.flow_7&launch_plan=nightly7"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, and the request that asks it."""

    what: str
    path: str
    body: dict[str, Any] | None = None  #: of a POST, which changes nothing
    status: int = 200  #: of the answer


def members(first: int) -> list[dict[str, Any]]:
    """The members of the pool, from a cluster on."""
    return [{"id": stock.cluster_name(number), "weight": 1} for number in range(first, first + MEMBERS)]


def pool_row(pool: str, **scope: str) -> dict[str, Any]:
    """The row by which a scope names a pool."""
    return {"resource_type": "CLUSTER_ASSIGNMENT", **scope, "payload": {"cluster_pool_name": pool}}


def _definition(**more: Any) -> dict[str, Any]:
    return {"pool_definition": {"name": POOL, **more}}


#: What is read, by its path.
_READ = {
    # Settings.
    "what applies at a scope, and who set it": f"effective_attributes?{_SCOPE}&provenance=true",
    "what applies at a launch plan, and who set it": f"effective_attributes?{_PLAN}&provenance=true",
    "what applied at a scope long ago": f"effective_attributes?{_SCOPE}&at=1000",
    "nearest row of every kind": f"effective_attributes?domain={DOMAIN}&nearest=true",
    "what differs between two scopes": f"effective_attributes/comparison?{_SCOPE}&{_OTHER}",
    "reach of a project's row in a domain": f"effective_attributes/reach?resource_type=0&limit=1000&{_SCOPE}",
    "reach of a domain's row, first page": f"effective_attributes/reach?resource_type=0&limit=1000&domain={DOMAIN}",
    "rows of a project, first page": f"matchable_attributes?resource_type=all&project={PROJECT}",
    "where a pool is used, first page": "uses?pool=training&reach=true",
    "where a pool is used that nothing names": "uses?pool=nowhere",
    "where a label is used, first page": "uses?label=near&reach=true",
    "where a cluster is used, first page": "uses?cluster=cluster-1&reach=true",
    "where a queue tag is used, first page": "uses?queue_tag=critical",
    "where a kind is used, first page": "uses?resource_type=TASK_RESOURCE",
    "where a value is used": "uses?resource_type=0&field=limits.cpu&value=12",
    "where a value is used that nothing has": "uses?resource_type=0&field=limits.cpu&value=13",
    "where amounts above a value are used": "uses?resource_type=0&field=limits.cpu&comparison=gt&value=12",
    "settings of all kinds, first page": "all_definitions?noun=setting",
    "settings that an author made, first page": f"all_definitions?noun=setting&filters=eq(author,{stock.RARE_AUTHOR})",
    "settings of a project without effect": f"matchable_attributes/no_effect?{_SCOPE}",
    "settings without effect, first page": "matchable_attributes/no_effect",
    "warnings, first page": "warnings?limit=100",
    # One execution.
    "one execution, and where it stands": f"{EXECUTIONS}/w0?with_status=true",
    "why an execution waits": f"{EXECUTIONS}/w0/explanation",
    "why an execution ended": f"{EXECUTIONS}/ended/explanation",
    "why an execution is not at a cluster": f"{EXECUTIONS}/w0/explanation?why_not=cluster-1",
    "events of an execution": f"{EXECUTIONS}/w0/events",
    "an execution's settings against today's": f"{EXECUTIONS}/w0/comparison",
    "an execution against another": f"{EXECUTIONS}/w0/comparison?other_name=ended",
    # Lists of executions.
    "executions, first page": "executions?limit=100",
    "executions with origins and limits, first page": "executions?limit=100&with_origin=true&with_limit_scope=true",
    "executions of a scope, first page": f"{EXECUTIONS}?limit=100",
    "executions that a scope placed": f"executions?limit=100&origin_scope={PROJECT}/{DOMAIN}",
    "executions of a scope that placed none": "executions?limit=100&origin_scope=-/production",
    "executions that a job's limit ended": "executions?limit=100&limit_scope=job&with_limit_scope=true",
    "executions that no limit of a scope ended": "executions?limit=100&limit_scope=-/production",
    "executions at silent agents": "executions?limit=100&silent=true",
    "executions whose end is unconfirmed": "executions?limit=100&unconfirmed=true",
    "executions with a label": f"executions?limit=100&filters=eq({LABEL},search-5)",
    "executions with a label that none has": f"executions?limit=100&filters=eq({LABEL},nobody)",
    "executions of names that nothing has": f"executions?limit=100&{_NO_NAMES}",
    "executions of a creator who made none": "executions?limit=100&created_by=nobody",
    "executions of a reason that none has": "executions?limit=100&reason=NOSUCH",
    "executions that someone ended who ended none": "executions?limit=100&abort_principal=nobody",
    # Of a scope: those of all scopes are too many to sort while others are created.
    "executions of a scope that waited longest, first page": f"{EXECUTIONS}?limit=100&sort_by.key=waited",
    "executions that waited for longer than any": "executions?limit=100&filters=gt(waited,1000d)",
    "executions of a scope that request the most memory, first page": f"{EXECUTIONS}?limit=100&sort_by.key=memory",
    "executions that request more memory than any": "executions?limit=100&filters=gt(memory,1Ti)",
    "executions by project and cluster": "execution_counts?by=project,cluster",
    "executions by reason": "execution_counts?by=reason",
    "those that wait, by pool and user": "execution_counts?phase=QUEUED&by=pool,user",
    "executions by a label": f"execution_counts?by={LABEL}",
    "executions by image": "execution_counts?by=image",
    "executions by what becomes of them if lost": "execution_counts?by=on-lost",
    "executions by queue": "execution_counts?by=queue",
    "where executions went, by cluster": "placement_counts?by=cluster",
    "executions by who ended them": "execution_counts?by=aborted-by",
    "executions by the scope that placed them": "execution_counts?by=origin-scope",
    "executions by the scope whose limit ended them": "execution_counts?by=limit-scope",
    # The fleet.
    "one cluster": "clusters/cluster-1",
    "clusters, first page": "clusters?limit=1000",
    "what differs between two clusters": "clusters/cluster-1/comparison?other=cluster-2",
    "events of a cluster": "clusters/cluster-1/events",
    "shares of a pool": f"pools/{POOL}/shares",
    "shares of a pool with every cluster": "pools/training/shares",
    "shares of a pool by user": f"pools/{POOL}/shares?by=user",
    "what bounds the tokens of a pool": f"token_pools/{TOKENS}/explanation",
    # History.
    "history, first page": "timeline?limit=20",
    "history of a pool": f"timeline?limit=20&resource_type=pool&name={POOL}",
    "history of a cluster": "timeline?limit=20&cluster=cluster-1",
    "history of a scope": f"timeline?limit=20&{_SCOPE}",
    "history of a launch plan": f"timeline?limit=20&{_PLAN}",
    "history of a kind": "timeline?limit=20&resource_type=CLUSTER_ASSIGNMENT",
    "history of an author": f"timeline?limit=20&actor={stock.RARE_AUTHOR}",
    "history of an author who made nothing": "timeline?limit=20&actor=nobody",
    "history of a request that did nothing": "timeline?limit=20&request_id=nobody",
    "history of the last day": "timeline?limit=20&after=24h",
    "history with creations and ends": "timeline?limit=20&executions=true&creations=true",
    "creations of a user who made none": "timeline?limit=20&source=creation&actor=nobody",
    "history before a time": "timeline?limit=20&before=2025-01-02",
    "one revision": "revisions/1000",
    # Definitions and rights.
    "what is defined, first page": "all_definitions?limit=100",
    "what is defined in a project, first page": f"all_definitions?limit=100&project={PROJECT}",
    "what a user may do over all scopes": "access/held?user=nobody",
    "what differs between two revisions": "revision_diff?from=1000&to=2000",
}
#: What is tried, by its path and body.
_TRIED: dict[str, tuple[str, dict[str, Any]]] = {
    "where a job would run": ("placements", {**PLACE, "name": "tried", "spec": {"job": stock.JOB}}),
    "which clusters of the fleet could run a job": (
        "placements",
        {**PLACE, "name": "tried", "spec": {"job": stock.JOB}, "fleet": True},
    ),
    "what a drain would do": ("clusters/cluster-1/drain?dry_run=true", {}),
    "what a cordon would do": ("clusters/cluster-1/cordon?dry_run=true", {}),
    "which executions would have gone elsewhere": (
        "simulations",
        {"changes": [pool_row("training", **PLACE)], "since": "24h"},
    ),
    "what deciding all that waits again would do": ("executions/redecide?dry_run=true", {"selector": PLACE}),
    "what undoing an old revision would do": ("rollbacks?dry_run=true", {"revision": 1, "restorable": True}),
    "what taking a scope back would do": ("rollbacks?dry_run=true", {"to": 1000, **PLACE}),
    **{
        what: ("attribute_changes?dry_run=true&force=true", {"changes": [change]})
        for what, change in {
            "plan of a domain's row": pool_row("training", domain=DOMAIN),
            "plan of a row that moves all that waits": pool_row("training", **PLACE),
            "plan of a pool that moves all that waits": {
                "pool_definition": {"name": POOL, "members": members(MEMBERS)}
            },
            "plan of deleting a pool that all waits in": {"pool_definition": {"name": POOL}, "delete": True},
            "plan of deleting a label": {"label_definition": {"name": SPARE_LABEL}, "delete": True},
            "plan of deleting a cluster": {"cluster_definition": {"name": SPARE_CLUSTER}, "delete": True},
        }.items()
    },
}
#: What does not exist, and is answered with the nearest names.
_MISSING = {
    "an execution that does not exist": f"{EXECUTIONS}/w0000",
    "a cluster that does not exist": "clusters/cluster-",
}

QUESTIONS = (
    *(Question(what=what, path=path) for what, path in _READ.items()),
    *(Question(what=what, path=path, body=body) for what, (path, body) in _TRIED.items()),
    *(Question(what=what, path=path, status=404) for what, path in _MISSING.items()),
)
