"""Clusters: the list, one of them with what it has and runs, the topology that leads to them, and their namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.commands import escaped_value
from admin.console.icicles import draw_tree
from admin.console.pages import Pages, render
from admin.console.settings import SCOPE_FILTERS, asked_scope, scope_options
from admin.console.topology import draw_topology
from admin.console.trees import has_text, search_tree
from admin.core.live_subjects import Topic
from admin.core.resources import RESOURCES, parse_capacity
from admin.core.settings.scopes import SCOPE_KEYS
from admin.errors import NotFound

pages = Pages("fleet")

_PAGE_SIZE = 50
_EVENTS = 20
#: Warnings that are read to find those of one cluster: the ones about the fleet come first.
_WARNINGS = 100
#: The resources of kinds of warnings that are about the fleet.
_OF_FLEET = ("CLUSTER", "POOL", "LABEL")
_FILTERS = {"search": "Name has", "pool": "Pool", "label": "Label"}
#: What the tabs of the list set beside that.
_STATES = ("state", "takes_work")
#: What rainbowctl calls the states that are no state of an agent.
_SWITCHED = {"disabled": "enabled=false", "cordoned": "cordoned=true", "draining": "draining=true"}
#: What the words of `get cluster` are for each switch, in the order in which they are offered.
SWITCHES = ("admit", "enable", "uncordon", "undrain", "cordon", "drain", "disable")


@pages.add("GET", "/fleet", permission="fleet.read", live=(Topic.FLEET, Topic.EXECUTIONS))
def list_clusters() -> str:
    """The list."""
    query = asked_query(*_FILTERS, *_STATES, "limit", "token")
    listed = ask("list_clusters", {"limit": _PAGE_SIZE, **query})
    return render(
        "fleet/list.html",
        title="Fleet",
        commands=[["get", "cluster", *_options(query)]] if "takes_work" not in query else [],
        listed=listed,
        amounts={cluster["name"]: list(amounts_of(cluster)) for cluster in listed["clusters"]},
        query=query,
        filters=_FILTERS,
        more=_STATES,
    )


def _options(query: Mapping[str, str]) -> list[str]:
    """The filters of the list as rainbowctl takes them."""
    options = [word for name in ("pool", "label") if name in query for word in (f"--{name}", query[name])]
    terms = [f"name contains {escaped_value(query['search'])}"] if "search" in query else []
    if state := query.get("state"):
        terms.append(_SWITCHED.get(state, f"state={state}"))
    return [*options, "--filter.fieldSelector", ",".join(terms)] if terms else options


@pages.add("GET", "/fleet/clusters/<name>", permission="fleet.read", live=(Topic.FLEET, Topic.EXECUTIONS))
def show_cluster(name: str) -> str:
    """One cluster."""
    query = asked_query("search", "reports", "events")
    path = {"name": name}
    cluster = ask("get_cluster", path=path)
    warnings = ask_if_allowed("get_warnings", {"limit": _WARNINGS})
    events = {"limit": _EVENTS, "reports": query.get("reports", "false"), "token": query.get("events")}
    return render(
        "fleet/cluster.html",
        title=name,
        commands=[["get", "cluster", name], ["get", "cluster", name, "--graph"], ["get", "cluster-event", name]],
        cluster=cluster,
        amounts=list(amounts_of(cluster)),
        switches=switches_of(cluster),
        events=ask("list_cluster_events", events, path=path),
        description=_description(name, query.get("search", "")),
        warnings=[warning for warning in (warnings or {"warnings": []})["warnings"] if _is_about(warning, name)],
        namespaces=_namespaces(cluster),
        query=query,
    )


def _description(name: str, search: str) -> dict[str, Any] | None:
    """The description as a tree, of which a search leaves the branches that lead to something; None without one."""
    try:
        answer = ask("get_description_tree", path={"name": name})
    except NotFound:
        return None
    if "tree" not in answer:
        return {**answer, "matching": None, "drawing": None}
    matching = search_tree(answer["tree"], search)
    wanted = search.strip().lower()
    drawing: dict[str, Any] | None = None
    for tree in (answer["tree"], matching.tree):  # all of it, or what the search leaves where that is too much
        drawing = drawing or (tree and draw_tree(tree, lambda branch: bool(wanted) and has_text(branch, wanted)))
    return {**answer, "matching": matching, "drawing": drawing}


def _is_about(warning: Mapping[str, Any], name: str) -> bool:
    return warning.get("resource_type") == "CLUSTER" and warning.get("name") == name


def _namespaces(cluster: Mapping[str, Any]) -> dict[str, Any] | None:
    """The namespaces that a cluster's agent makes; None where it makes none."""
    if not cluster.get("cluster_resources"):
        return None
    listed = ask_if_allowed("list_cluster_resources", {"cluster": cluster["name"]})
    return None if listed is None else dict(listed)


def amounts_of(cluster: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Of each resource what a cluster has, and how long the parts of its bar are, of a hundred."""
    keys = ("capacity", "reported_free", "assigned", "free")
    shown = {key: cluster.get(key) or {} for key in keys}
    exact = {key: parse_capacity(shown[key]) for key in keys}
    for resource in RESOURCES:
        if not any(resource in shown[key] for key in keys):
            continue
        whole = exact["capacity"].get(resource, 0)
        used = whole - exact["reported_free"].get(resource, whole)
        assigned = exact["assigned"].get(resource, 0)
        used_share = round(100 * used / whole, 1) if whole else 0
        assigned_share = min(round(100 * assigned / whole, 1) if whole else 0, 100 - used_share)
        amounts = {key: shown[key].get(resource) for key in keys}
        yield {"resource": resource, **amounts, "used_share": used_share, "assigned_share": assigned_share}


def switches_of(cluster: Mapping[str, Any]) -> Sequence[str]:
    """The switches that would change something about a cluster."""
    apart = {
        "admit": cluster["state"] == "pending",
        "enable": not cluster["enabled"],
        "disable": cluster["enabled"],
        "undrain": cluster["draining"],
        "drain": not cluster["draining"],
        "uncordon": cluster["cordoned"] and not cluster["draining"],
        "cordon": not cluster["cordoned"] and not cluster["draining"],
    }
    return [switch for switch in SWITCHES if apart[switch]]


@pages.add("GET", "/fleet/topology", permission="fleet.read")
def show_topology() -> str:
    """Which labels and pools lead to which clusters."""
    query = asked_query("token", "labels")
    pools = ask("list_pools", {"limit": _PAGE_SIZE, "token": query.get("token")})
    labels = ask("list_labels", {"limit": _PAGE_SIZE, "token": query.get("labels")})
    return render(
        "fleet/topology.html",
        title="Topology",
        commands=[["get", "pool"], ["get", "label"]],
        groups=[("Pools", "pools", pools["pools"]), ("Labels", "labels", labels["labels"])],
        drawing=draw_topology(
            [*(("pool", pool) for pool in pools["pools"]), *(("label", label) for label in labels["labels"])]
        ),
        next_pools=pools.get("token"),
        next_labels=labels.get("token"),
        query=query,
    )


@pages.add("GET", "/fleet/namespaces", permission="attributes.read", shows_some=True)
def list_namespaces() -> str:
    """The namespaces that agents make from templates, and what became of them."""
    query = asked_query("project", "domain", "cluster", "failing")
    options = [
        *(["-p", query["project"]] if "project" in query else []),
        *(["-d", query["domain"]] if "domain" in query else []),
        *(["--cluster", query["cluster"]] if "cluster" in query else []),
        *(["--failing"] if query.get("failing") == "true" else []),
    ]
    return render(
        "fleet/namespaces.html",
        title="Namespaces",
        commands=[["get", "cluster-resources", *options]],
        listed=ask("list_cluster_resources", query),
        query=query,
    )


@pages.add("GET", "/fleet/warnings", permission="attributes.read", shows_some=True)
def list_warnings() -> str:
    """What is stored but questionable."""
    query = asked_query(*SCOPE_KEYS, "limit", "token")
    return render(
        "fleet/warnings.html",
        title="Warnings",
        commands=[["get", "warnings", *scope_options(asked_scope(query))]],
        listed=ask("get_warnings", {"limit": _PAGE_SIZE, **query}),
        filters=SCOPE_FILTERS,
        query=query,
    )
