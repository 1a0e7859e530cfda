"""Loading: defaults, then the YAML file, then RAINBOW_* variables, then the command line, made into settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from admin.configuration.checks import check_document, check_task_resources, host_paths
from admin.configuration.defaults import default_document, single_values
from admin.configuration.empty_entries import empty_problems
from admin.configuration.environment import read_environment
from admin.configuration.external_values import external_sources
from admin.configuration.keys import CONFIGURATION, key_values
from admin.configuration.platform_values import platform_values
from admin.configuration.pools import pool_payloads
from admin.configuration.settings import (
    Agents,
    ClusterResources,
    Domain,
    Limits,
    OpenId,
    Rates,
    ResourceManager,
    SeedProject,
    Server,
    Settings,
)
from admin.configuration.yaml_files import read_mapping
from admin.core import names
from admin.core.cluster_resources.namespaces import NamespacePattern
from admin.core.executions.launches import Rules
from admin.core.executions.queues import Queue
from admin.core.fields.branches import Section
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.documents import read_definition
from admin.core.graph.descriptions import MOST_VERTICES
from admin.core.permissions import all_roles
from admin.core.problems import Problem, raise_problems
from admin.core.projects import read_labels
from admin.core.quantities import parse_age, parse_duration
from admin.core.retention import Retention
from admin.core.settings.declared_kinds import registry
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformValues


def load_settings(
    config_file: str | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Settings from a file, the environment and the command line; Invalid with every problem found."""
    file = read_mapping(Path(config_file)) if config_file else {}
    layers = {"file": file, "environment": read_environment(environment or {}), "command line": overrides or {}}
    document = default_document()
    sources: dict[str, str] = {}
    for source, layer in layers.items():
        checked = _read(layer)
        if "clusterConfigs" in checked.get("clusters", {}):
            # The default label names the default cluster, which a fleet of one's own would keep by it.
            document = {**document, "clusters": _without_labels(document["clusters"])}
        document = _join(CONFIGURATION, document, checked)
        unset = {key for key, value in key_values(CONFIGURATION, document) if value is None}
        given = key_values(CONFIGURATION, checked)
        sources |= {key: source for key, value in given if value is not None or key in unset}
    return _build_settings(document, sources, environment or {})


def _read(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer in its normal form; Invalid with every problem, what is left empty first and named once."""
    problems: list[Problem] = []
    normal: dict[str, Any] = CONFIGURATION.read(layer, (), problems)
    empty = list(empty_problems(CONFIGURATION, layer))
    fields = {problem.field for problem in empty}
    raise_problems([*empty, *(problem for problem in problems if problem.field not in fields)])
    return normal


def _without_labels(clusters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in clusters.items() if key != "labelClusterMap"}


def _join(section: Section, below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections joined key by key; any other key of the upper layer replaces the one below, an empty section too.

    A single value that is null unsets the one below; what the admin cannot be without then has its default.
    """
    joined = dict(below)
    for key, value in above.items():
        field = section.fields[key]
        if isinstance(field, Section) and not value:
            joined[key] = single_values(field)
        elif isinstance(field, Section):
            joined[key] = _join(field, below.get(key, {}), value)
        elif value is not None:
            joined[key] = value
        elif (default := getattr(field, "default", None)) is not None:
            joined[key] = default
        elif key in below:
            joined[key] = None
    return joined


def _build_settings(
    document: Mapping[str, Any], sources: Mapping[str, str], environment: Mapping[str, str]
) -> Settings:
    check_document(document)
    kinds = registry(document.get("kinds", {}))
    platform = platform_values(document)
    check_task_resources(platform)
    clusters, agents, retention = document.get("clusters", {}), dict(document["agents"]), dict(document["retention"])
    retention_interval = retention.pop("interval")
    return Settings(
        server=Server(**_snake_case(document["server"]), **_snake_case(document["server"].get("tls", {}), "tls_")),
        openid=OpenId(**_snake_case(document["openid"])) if "issuer" in document["openid"] else None,
        limits=_limits(document["limits"]),
        database_url=_absolute(document["database"].get("url") or _default_database_url()),
        database_pool_size=document["database"]["poolSize"],
        database_connect_seconds=document["database"]["connectTimeoutSeconds"],
        database_statement_seconds=document["database"]["statementTimeoutSeconds"],
        database_lock_seconds=document["database"]["lockTimeoutSeconds"],
        resource_manager=_resource_manager(document["resourcemanager"]),
        log_level=document["logging"]["level"],
        log_format=document["logging"]["format"],
        domains=tuple(Domain(id=item["id"], name=item.get("name", item["id"])) for item in document["domains"]),
        projects=tuple(_seed_projects(document["projects"])),
        refuse_unknown_names=document["attributes"]["unknownNames"] == "refuse",
        kinds=kinds,
        platform=platform,
        rules=_rules(document, kinds, platform),
        fleet=tuple(_fleet(clusters)),
        agents=Agents(
            registration=clusters.get("registration", "open"),
            secret_file=clusters.get("registrationSecretFile"),
            give_up_seconds=float(parse_age(agents.pop("giveUpAfter"))),
            **_snake_case(agents),
        ),
        cluster_resources=_cluster_resources(document, environment),
        roles=all_roles(document.get("roles", {})),
        is_cluster_use_closed=document["placement"]["clusterUse"] == "closed",
        graph_backend=document["placement"]["graphBackend"],
        max_vertices=clusters.get("maxVertices", MOST_VERTICES),
        ask_deadline_seconds=float(parse_duration(document["placement"]["askDeadline"])),
        loop_interval_seconds=document["loops"]["intervalMilliseconds"] / 1000,
        loop_lease_seconds=document["loops"]["leaseSeconds"],
        retention=Retention(**retention),
        retention_interval_seconds=float(parse_age(retention_interval)),
        console_session_seconds=float(parse_age(document["console"]["sessionDuration"])),
        most_live_streams=document["console"]["liveStreams"],
        audit_file=document.get("audit", {}).get("file"),
        document=document,
        sources=sources,
    )


def _cluster_resources(document: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterResources:
    section = document["cluster_resources"]
    path = section.get("templatePath")
    return ClusterResources(
        template_path=str(Path(os.path.expandvars(path)).absolute()) if path else None,
        namespaces=NamespacePattern(document["namespace_mapping"]["template"]),
        external_values=tuple(external_sources(section, environment)),
        prune_namespaces=section["pruneNamespaces"],
        refresh_seconds=float(parse_duration(section["refreshInterval"])),
    )


def _resource_manager(section: Mapping[str, Any]) -> ResourceManager:
    redis = section["redis"]
    return ResourceManager(
        type=section["type"],
        resource_max_quota=section["resourceMaxQuota"],
        host_paths=host_paths(redis),
        host_key=redis.get("hostKey") or "",
        max_retries=redis["maxRetries"],
        longest_lease_seconds=redis["longestLeaseSeconds"],
    )


def _limits(limits: Mapping[str, Any]) -> Limits:
    user, project = (Rates(**_snake_case(limits.get(name, {}))) for name in ("user", "project"))
    return Limits(**_snake_case(limits), user=user, project=project)


def _snake_case(section: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The single values of a section under the names that settings have for them."""
    return {prefix + names.snake(key): value for key, value in section.items() if not isinstance(value, dict)}


def _default_database_url() -> str:
    """The embedded database of this user, wherever the admin is started from."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return f"sqlite:///{Path(home) / 'rainbow' / 'rainbow.db'}"


def _absolute(url: str) -> str:
    """A database URL whose relative file is taken from the directory in which the admin is started."""
    prefix, separator, path = url.partition(":///")
    is_relative_file = prefix.startswith("sqlite") and path and not path.startswith(("/", ":memory:", "file:"))
    return f"{prefix}{separator}{Path(path).absolute()}" if is_relative_file else url


def _seed_projects(items: list[dict[str, Any]]) -> Iterator[SeedProject]:
    for index, item in enumerate(items):
        labels = item.get("labels", {})
        yield SeedProject(
            id=item["id"],
            name=item.get("name", item["id"]),
            description=item.get("description", ""),
            labels=read_labels(labels.get("values", labels), ("projects", str(index), "labels")),
        )


def _rules(document: Mapping[str, Any], kinds: Kinds, platform: PlatformValues) -> Rules:
    queues = document.get("queues", {}).get("executionQueues", [])
    tiers = document.get("qualityOfService", {}).get("tierExecutionValues", {})
    may_override = document["placement"]["requestMayOverride"]
    if isinstance(may_override, bool):
        may_override = {domain["id"]: may_override for domain in document["domains"]}
    return Rules(
        kinds=kinds,
        platform=platform,
        queues=tuple(Queue(name=queue["dynamic"], tags=tuple(queue.get("attributes", []))) for queue in queues),
        queueing_budgets={name: tier["queueingBudget"] for name, tier in tiers.items() if "queueingBudget" in tier},
        task_tokens=document["resourcemanager"].get("taskTypes", {}),
        fenced=frozenset(domain for domain, is_allowed in may_override.items() if is_allowed is False),
    )


def _fleet(clusters: Mapping[str, Any]) -> Iterator[Definition]:
    """The clusters, pools and labels that configuration declares, as if they had been created through the API."""
    for config in clusters.get("clusterConfigs", []):
        payload = {name: value for name, value in config.items() if name != "name"}
        yield _definition(FleetKind.CLUSTER, config["name"], payload)
    for name, payload in pool_payloads(clusters).items():
        yield _definition(FleetKind.POOL, name, payload)
    for name, members in clusters.get("labelClusterMap", {}).items():
        yield _definition(FleetKind.LABEL, name, {"members": members})


def _definition(kind: FleetKind, name: str, payload: dict[str, Any]) -> Definition:
    normal = read_definition(kind, name, payload)
    return Definition(kind=kind, name=name, payload=normal, source=Source.CONFIGURATION)
