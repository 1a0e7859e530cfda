"""The admin's settings: defaults, then the YAML file, then RAINBOW_* variables, then the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admin.configuration.keys import CONFIGURATION, DEFAULTS
from admin.configuration.platform_values import platform_values
from admin.configuration.yaml_files import read_mapping
from admin.core.executions.launches import Rules
from admin.core.executions.queues import Queue
from admin.core.fields import Boolean, Field, Integer, Leaf, ListOf, Section, read
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet_documents import member_problems, read_definition
from admin.core.problems import Invalid, Problem, closest, unknown_word
from admin.core.projects import read_labels
from admin.core.quantities import parse_age
from admin.core.retention import Retention
from admin.core.settings import builtin_kinds
from admin.core.settings.declared_kinds import registry
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import resolve
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.task_resources import excesses, zero_limits

#: The sections whose single values the environment may set; the rest are lists and maps, which belong in a file.
_ENVIRONMENT_SECTIONS = ("server", "database", "logging", "attributes", "agents", "retention")


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One domain, from configuration."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class SeedProject:
    """A project that is there from the start."""

    id: str
    name: str
    description: str = ""
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where and how the admin listens."""

    host: str
    port: int
    workers: int
    threads: int
    max_body_bytes: int
    graceful_shutdown_seconds: int
    api_token_file: str | None
    tls_cert_file: str | None
    tls_key_file: str | None


@dataclass(frozen=True, kw_only=True)
class Agents:
    """How agents register, sync and are given up."""

    registration: str
    secret_file: str | None
    lease_seconds: int
    wait_seconds: int
    unreachable_seconds: int
    lost_seconds: int
    evictions_per_second: int
    log_limit_bytes: int
    output_limit_bytes: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that configuration says, in the form the services use."""

    server: Server
    database_url: str
    database_pool_size: int
    log_level: str
    log_format: str
    domains: tuple[Domain, ...]
    projects: tuple[SeedProject, ...]
    refuse_unknown_names: bool
    kinds: Kinds
    platform: PlatformValues
    rules: Rules  #: of executions
    fleet: tuple[Definition, ...]  #: the clusters, pools and labels that configuration declares
    agents: Agents
    loop_interval_seconds: float
    loop_lease_seconds: float
    retention: Retention
    retention_interval_seconds: float
    document: Mapping[str, Any]  #: the whole configuration as it is in force

    def domain_ids(self) -> list[str]:
        """The ids of the domains, in configured order."""
        return [domain.id for domain in self.domains]


def load_settings(
    config_file: str | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Settings from a file, the environment and the command line; Invalid with every problem found."""
    given = read_mapping(Path(config_file)) if config_file else {}
    document = DEFAULTS
    for layer in (given, _from_environment(environment or {}), overrides or {}):
        document = _joined(CONFIGURATION, document, read(CONFIGURATION, layer))
    return _settings(document)


def _joined(section: Section, below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections joined key by key; everything else in the upper layer replaces what is below."""
    joined = dict(below)
    for key, value in above.items():
        inner = section.fields[key]
        if isinstance(inner, Section):
            joined[key] = _joined(inner, below.get(key, {}), value)
        elif value is not None:
            joined[key] = value
    return joined


def default_database_url() -> str:
    """The embedded database of this user, wherever the admin is started from."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return f"sqlite:///{Path(home) / 'rainbow' / 'rainbow.db'}"


def _anchored(url: str) -> str:
    """A database file is meant from where the admin is started."""
    prefix, separator, path = url.partition(":///")
    is_relative_file = prefix.startswith("sqlite") and path and not path.startswith(("/", ":memory:", "file:"))
    return f"{prefix}{separator}{Path(path).absolute()}" if is_relative_file else url


def environment_variables() -> dict[str, tuple[tuple[str, ...], Leaf]]:
    """The variables that set configuration keys: their key path and type."""
    found: dict[str, tuple[tuple[str, ...], Leaf]] = {}
    for section in _ENVIRONMENT_SECTIONS:
        for path, leaf in _scalars(CONFIGURATION.fields[section], (section,)):
            words = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).upper() for part in path]
            found["RAINBOW_" + "_".join(words)] = (path, leaf)
    return found


def _scalars(item: Field, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    if isinstance(item, Section):
        for name, inner in item.fields.items():
            yield from _scalars(inner, (*path, name))
    elif isinstance(item, Leaf) and not isinstance(item, ListOf):
        yield path, item


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    known = environment_variables()
    prefixes = tuple(f"RAINBOW_{section.upper()}_" for section in _ENVIRONMENT_SECTIONS)
    document: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(prefixes):
            continue
        if variable not in known:
            reason = unknown_word("variable", variable, known)
            raise Invalid(Problem(field=variable, reason=reason, closest=closest(variable, known)))
        path, leaf = known[variable]
        place = document
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = _typed(leaf, text)
    return document


def _typed(leaf: Leaf, text: str) -> Any:
    if isinstance(leaf, Integer) and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if isinstance(leaf, Boolean) and text in ("true", "false"):
        return text == "true"
    return text


def _settings(document: Mapping[str, Any]) -> Settings:
    _check_domains(document)
    _check_members(document)
    kinds = registry(document.get("kinds", {}))
    values = platform_values(document)
    _check_task_resources(values)
    server = document["server"]
    tls = server.get("tls", {})
    if ("certFile" in tls) != ("keyFile" in tls):
        raise Invalid(Problem(field="server.tls", reason="needs both certFile and keyFile."))
    return Settings(
        server=Server(
            host=server["host"],
            port=server["port"],
            workers=server["workers"],
            threads=server["threads"],
            max_body_bytes=server["maxBodyBytes"],
            graceful_shutdown_seconds=server["gracefulShutdownSeconds"],
            api_token_file=server.get("apiTokenFile"),
            tls_cert_file=tls.get("certFile"),
            tls_key_file=tls.get("keyFile"),
        ),
        database_url=_anchored(document["database"].get("url") or default_database_url()),
        database_pool_size=document["database"]["poolSize"],
        log_level=document["logging"]["level"],
        log_format=document["logging"]["format"],
        domains=tuple(Domain(id=item["id"], name=item.get("name", item["id"])) for item in document["domains"]),
        projects=tuple(_seed_projects(document["projects"])),
        refuse_unknown_names=document["attributes"]["unknownNames"] == "refuse",
        kinds=kinds,
        platform=values,
        rules=_rules(document, kinds, values),
        fleet=tuple(_fleet(document.get("clusters", {}))),
        agents=_agents(document),
        loop_interval_seconds=document["loops"]["intervalMilliseconds"] / 1000,
        loop_lease_seconds=document["loops"]["leaseSeconds"],
        retention=Retention(**{name: age for name, age in document["retention"].items() if name != "interval"}),
        retention_interval_seconds=float(parse_age(document["retention"]["interval"])),
        document=document,
    )


def _check_domains(document: Mapping[str, Any]) -> None:
    """Every domain that configuration mentions is one that it declares."""
    ids = [item["id"] for item in document["domains"]]
    mentioned = [
        *(
            ("queues.workflowConfigs", item["domain"])
            for item in _at(document, "queues", "workflowConfigs", [])
            if "domain" in item
        ),
        *(("qualityOfService.defaultTiers", name) for name in _at(document, "qualityOfService", "defaultTiers", {})),
        *(
            ("clusterPools.clusterPoolAssignments", name)
            for name in _at(document, "clusterPools", "clusterPoolAssignments", {})
        ),
        *(("placement.requestMayOverride", name) for name in _domains_of(document["placement"]["requestMayOverride"])),
        *(("cluster_resources.customData", name) for name in _at(document, "cluster_resources", "customData", {})),
    ]
    problems = [
        Problem(field=f"{key}.{name}", reason=unknown_word("domain", name, ids), closest=closest(name, ids))
        for key, name in mentioned
        if name not in ids
    ]
    problems += [
        Problem(field="domains", reason=f"'{name}' is listed twice.")
        for name in {name for name in ids if ids.count(name) > 1}
    ]
    if problems:
        raise Invalid(*problems)


def _domains_of(by_domain: Any) -> list[str]:
    return list(by_domain) if isinstance(by_domain, dict) else []


def _check_task_resources(values: PlatformValues) -> None:
    """No default of the platform's own above its own limit."""
    kind = builtin_kinds.TASK_RESOURCE
    problems = [
        Problem(
            field=excess.default_origin.key,
            reason=f"{excess.default} is above {excess.limit_origin.key}, which is {excess.limit}.",
        )
        for excess in excesses(resolve(kind, PLATFORM, {}, values.at(kind, "")))
    ]
    limits = {path[1]: leaf.value for path, leaf in values.at(kind, "").items() if path[0] == "limits"}
    problems += [
        Problem(
            field=f"task_resources.limits.{resource}", reason="is 0 and would let nothing run; leave it out for none."
        )
        for resource in zero_limits(limits)
    ]
    if problems:
        raise Invalid(*problems)


def _check_members(document: Mapping[str, Any]) -> None:
    """Lists that could be drawn from, no cluster declared twice, and no strategy for a pool that is none."""
    clusters = document.get("clusters", {})
    problems: list[Problem] = []
    for key in ("poolNameClusterMap", "labelClusterMap"):
        for name, members in clusters.get(key, {}).items():
            problems += member_problems(members, ("clusters", key, name))
    declared = [config["name"] for config in clusters.get("clusterConfigs", [])]
    problems += [
        Problem(field="clusters.clusterConfigs", reason=f"the cluster '{name}' is declared twice.")
        for name in sorted({name for name in declared if declared.count(name) > 1})
    ]
    pools = clusters.get("poolNameClusterMap", {})
    problems += [
        Problem(field=f"clusters.poolStrategies.{name}", reason=unknown_word("pool", name, pools))
        for name in clusters.get("poolStrategies", {})
        if name not in pools
    ]
    if problems:
        raise Invalid(*problems)


def _seed_projects(items: list[dict[str, Any]]) -> Iterator[SeedProject]:
    for index, item in enumerate(items):
        given = item.get("labels", {})
        yield SeedProject(
            id=item["id"],
            name=item.get("name", item["id"]),
            description=item.get("description", ""),
            labels=read_labels(given.get("values", given), ("projects", str(index), "labels")),
        )


def _at(document: Mapping[str, Any], section: str, key: str, default: Any) -> Any:
    return document.get(section, {}).get(key, default)


def _agents(document: Mapping[str, Any]) -> Agents:
    said, clusters = document["agents"], document.get("clusters", {})
    agents = Agents(
        registration=clusters.get("registration", "open"),
        secret_file=clusters.get("registrationSecretFile"),
        lease_seconds=said["leaseSeconds"],
        wait_seconds=said["waitSeconds"],
        unreachable_seconds=said["unreachableSeconds"],
        lost_seconds=said["lostSeconds"],
        evictions_per_second=said["evictionsPerSecond"],
        log_limit_bytes=said["logLimitBytes"],
        output_limit_bytes=said["outputLimitBytes"],
    )
    problems = []
    if agents.lost_seconds <= agents.lease_seconds:
        reason = f"must be longer than agents.leaseSeconds ({agents.lease_seconds}): work may not run twice."
        problems.append(Problem(field="agents.lostSeconds", reason=reason))
    if agents.lost_seconds <= agents.unreachable_seconds:
        reason = f"must be longer than agents.unreachableSeconds ({agents.unreachable_seconds})."
        problems.append(Problem(field="agents.lostSeconds", reason=reason))
    if agents.wait_seconds >= agents.lease_seconds:
        reason = f"must be shorter than agents.leaseSeconds ({agents.lease_seconds}): a sync renews the leases."
        problems.append(Problem(field="agents.waitSeconds", reason=reason))
    if agents.wait_seconds >= agents.unreachable_seconds:
        reason = f"must be shorter than agents.unreachableSeconds ({agents.unreachable_seconds})."
        problems.append(Problem(field="agents.waitSeconds", reason=reason))
    if problems:
        raise Invalid(*problems)
    return agents


def _rules(document: Mapping[str, Any], kinds: Kinds, values: PlatformValues) -> Rules:
    queues = _at(document, "queues", "executionQueues", [])
    tiers = _at(document, "qualityOfService", "tierExecutionValues", {})
    may_override = document["placement"]["requestMayOverride"]
    if isinstance(may_override, bool):
        may_override = {item["id"]: may_override for item in document["domains"]}
    return Rules(
        kinds=kinds,
        platform=values,
        queues=tuple(Queue(name=item["dynamic"], tags=tuple(item.get("attributes", []))) for item in queues),
        queueing_budgets={tier: one["queueingBudget"] for tier, one in tiers.items() if "queueingBudget" in one},
        fenced=frozenset(domain for domain, may in may_override.items() if may is False),
    )


def _fleet(clusters: Mapping[str, Any]) -> Iterator[Definition]:
    """What configuration declares, in the form in which it could have been defined while running."""
    strategies = clusters.get("poolStrategies", {})
    for config in clusters.get("clusterConfigs", []):
        payload = {name: value for name, value in config.items() if name != "name"}
        yield _definition(FleetKind.CLUSTER, config["name"], payload)
    for name, members in clusters.get("poolNameClusterMap", {}).items():
        strategy = {"strategy": strategies[name]} if name in strategies else {}
        yield _definition(FleetKind.POOL, name, {"members": members, **strategy})
    for name, members in clusters.get("labelClusterMap", {}).items():
        yield _definition(FleetKind.LABEL, name, {"members": members})


def _definition(kind: FleetKind, name: str, payload: dict[str, Any]) -> Definition:
    normal = read_definition(kind, name, payload)
    return Definition(kind=kind, name=name, payload=normal, source=Source.CONFIGURATION)
