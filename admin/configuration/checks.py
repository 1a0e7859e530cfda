"""Checks of a whole configuration: rules that involve several keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from admin.configuration.graph_backends import backend_problems
from admin.configuration.pools import pool_problems
from admin.core.cluster_resources.namespaces import NamespacePattern
from admin.core.fleet.documents import member_problems
from admin.core.hosts import is_safe_url
from admin.core.problems import Problem, raise_problems, repeated, unknown_problem
from admin.core.quantities import parse_age
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import resolve
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import excesses, zero_limits
from admin.core.token_pools.documents import AMOUNTS

_LONGEST_SILENCE_SECONDS = 3650 * 86_400


def check_document(document: Mapping[str, Any]) -> None:
    """Refuse a configuration whose keys contradict each other; Invalid with every problem."""
    raise_problems(
        [
            *_domain_problems(document),
            *_fleet_problems(document.get("clusters", {})),
            *_agent_problems(document["agents"]),
            *_database_problems(document["database"].get("url", "")),
            *_tls_problems(document["server"].get("tls", {})),
            *_openid_problems(document["openid"]),
            *backend_problems(document["placement"]["graphBackend"]),
            *_resource_manager_problems(document["resourcemanager"], document["agents"]["leaseSeconds"]),
            *_namespace_problems(document["namespace_mapping"]["template"]),
        ]
    )


def check_task_resources(values: PlatformValues) -> None:
    """Refuse a platform default above the platform's own limit, and a limit that lets nothing run."""
    platform = values.at(TASK_RESOURCE, "")
    problems = [
        Problem(
            field=excess.default_origin.key,
            reason=f"{excess.default} is above {excess.limit_origin.key}, which is {excess.limit}.",
        )
        for excess in excesses(resolve(TASK_RESOURCE, PLATFORM, {}, platform))
    ]
    reason = "is 0 and would let nothing run; write null for none."
    problems += [
        Problem(field=f"task_resources.limits.{resource}", reason=reason)
        for resource in zero_limits(platform.payload.get("limits", {}))
    ]
    raise_problems(problems)


def _domain_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Domains that are mentioned but not declared, or declared twice."""
    ids = [domain["id"] for domain in document["domains"]]
    for key, name in _mentioned_domains(document):
        if name not in ids:
            yield unknown_problem(f"{key}.{name}", "domain", name, ids)
    for name in repeated(ids):
        yield Problem(field="domains", reason=f"'{name}' is listed twice.")


def _mentioned_domains(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The domains that configuration mentions, each with the key under which it does."""
    for config in document.get("queues", {}).get("workflowConfigs", []):
        if "domain" in config:
            yield "queues.workflowConfigs", config["domain"]
    for section, key in (
        ("qualityOfService", "defaultTiers"),
        ("clusterPools", "clusterPoolAssignments"),
        ("placement", "requestMayOverride"),
        ("cluster_resources", "customData"),
    ):
        by_domain = document.get(section, {}).get(key)
        for domain in by_domain if isinstance(by_domain, dict) else ():
            yield f"{section}.{key}", domain


def _fleet_problems(clusters: Mapping[str, Any]) -> Iterator[Problem]:
    """Lists of members that no cluster could be chosen from, clusters declared twice, and what is wrong with pools."""
    for key in ("poolNameClusterMap", "labelClusterMap"):
        for name, members in clusters.get(key, {}).items():
            yield from member_problems(members, ("clusters", key, name))
    for name in repeated(config["name"] for config in clusters.get("clusterConfigs", [])):
        yield Problem(field="clusters.clusterConfigs", reason=f"the cluster '{name}' is declared twice.")
    yield from pool_problems(clusters)


def _agent_problems(agents: Mapping[str, Any]) -> Iterator[Problem]:
    """Times that must be longer or shorter than others."""
    for key, cause in (("leaseSeconds", ": work may not run twice"), ("unreachableSeconds", "")):
        if agents["lostSeconds"] <= agents[key]:
            reason = f"must be longer than agents.{key} ({agents[key]}){cause}."
            yield Problem(field="agents.lostSeconds", reason=reason)
    seconds = parse_age(agents["giveUpAfter"])
    if not agents["lostSeconds"] <= seconds <= _LONGEST_SILENCE_SECONDS:
        reason = f"must be at least agents.lostSeconds ({agents['lostSeconds']} s) and at most 3650d."
        yield Problem(field="agents.giveUpAfter", reason=reason)
    for key, cause in (("leaseSeconds", ": a sync renews the leases"), ("unreachableSeconds", "")):
        if agents["waitSeconds"] >= agents[key]:
            reason = f"must be shorter than agents.{key} ({agents[key]}){cause}."
            yield Problem(field="agents.waitSeconds", reason=reason)


def _database_problems(url: str) -> Iterator[Problem]:
    """A URL of a server in which part of a password is taken for something else; nothing of it is repeated."""
    if url.startswith("sqlite"):
        return
    try:
        is_split_wrongly = url.count("@") > 1 or "@" in (make_url(url).database or "")
    except ArgumentError:  # which is said when the database is opened
        return
    except ValueError:
        reason = "the port is not a number; write postgresql+psycopg://user:password@host:5432/name."
        yield Problem(field="database.url", reason=reason)
        return
    if is_split_wrongly:
        reason = "only the '@' before the host may stand for itself: write any other as %40, and a '/' in the user or "
        yield Problem(field="database.url", reason=reason + "the password as %2F.")


def _tls_problems(tls: Mapping[str, str]) -> Iterator[Problem]:
    if ("certFile" in tls) != ("keyFile" in tls):
        yield Problem(field="server.tls", reason="needs both certFile and keyFile.")


def _openid_problems(openid: Mapping[str, Any]) -> Iterator[Problem]:
    """An issuer that tokens could not be trusted from, and keys that need another one."""
    if "issuer" not in openid:
        for key in ("audience", "clientId"):
            if key in openid:
                yield Problem(field=f"openid.{key}", reason="means nothing without openid.issuer: give both.")
        return
    issuer = openid["issuer"]
    if not is_safe_url(issuer) or any(char in issuer for char in "@?# "):
        reason = "must be the https URL of the OpenID provider, without user and query; http is for loopback only."
        yield Problem(field="openid.issuer", reason=reason)
    if "audience" not in openid:
        reason = "is missing: name the audience that the provider puts into tokens for this admin."
        yield Problem(field="openid.audience", reason=reason)


def _namespace_problems(pattern: str) -> Iterator[Problem]:
    problem = NamespacePattern(pattern).problem()
    if problem:
        yield Problem(field="namespace_mapping.template", reason=problem)


#: The port of Redis, where none is given.
_REDIS_PORT = 6379


def host_paths(redis: Mapping[str, Any]) -> tuple[str, ...]:
    """Where Redis is, in either of Flyte's spellings; a host without a port has that of Redis."""
    paths = redis.get("hostPaths") or filter(None, [redis.get("hostPath")])
    return tuple(path if ":" in path else f"{path}:{_REDIS_PORT}" for path in paths)


def _resource_manager_problems(section: Mapping[str, Any], lease_seconds: int) -> Iterator[Problem]:
    redis = section["redis"]
    problems: list[Problem] = []
    for task_type, amounts in section.get("taskTypes", {}).items():
        AMOUNTS.read(amounts, ("resourcemanager", "taskTypes", task_type), problems)
    yield from problems
    if redis.get("hostPaths") and redis.get("hostPath"):
        yield Problem(field="resourcemanager.redis.hostPath", reason="stands beside hostPaths: give one of them.")
    if redis.get("primaryName"):
        reason = (
            "is of a Redis that Sentinel watches, after whose failover nobody could promise a capacity: leave it out, "
            "and name the server in hostPaths."
        )
        yield Problem(field="resourcemanager.redis.primaryName", reason=reason)
    if section["type"] == "redis" and redis["longestLeaseSeconds"] < lease_seconds:
        reason = f"must be at least agents.leaseSeconds ({lease_seconds}): executions hold tokens as long as leases."
        yield Problem(field="resourcemanager.redis.longestLeaseSeconds", reason=reason)
    if section["type"] == "redis" and not host_paths(redis):
        yield Problem(field="resourcemanager.redis.hostPaths", reason="is missing: say where Redis is, [host:6379].")
    for path in host_paths(redis):
        host, _, port = path.rpartition(":")
        if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            reason = f"'{path}' is not a host and a port: write host:6379."
            yield Problem(field="resourcemanager.redis.hostPaths", reason=reason)
