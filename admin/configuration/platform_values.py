"""The platform's own values of each kind, and the configuration keys that set them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.configuration.external_values import external_source
from admin.core.settings import builtin_kinds
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformLeaf, PlatformLeaves, PlatformValues, leaves


def platform_values(document: Mapping[str, Any]) -> PlatformValues:
    """The platform's own values of every kind, from a whole configuration."""
    everywhere: dict[str, PlatformLeaves] = {}
    by_domain: dict[tuple[str, str], PlatformLeaves] = {}
    for kind, domain, kind_leaves in _values(document):
        if domain:
            by_domain[kind.name, domain] = kind_leaves
        elif kind_leaves:
            everywhere[kind.name] = kind_leaves
    return PlatformValues(everywhere=everywhere, by_domain=by_domain)


def _values(document: Mapping[str, Any]) -> Iterator[tuple[Kind, str, PlatformLeaves]]:
    """Leaves with their kind and the domain that they are for, "" for all domains."""
    for kind, key in (
        (builtin_kinds.TASK_RESOURCE, "task_resources"),
        (builtin_kinds.WORKFLOW_EXECUTION_CONFIG, "workflow_execution_config"),
        (builtin_kinds.EXECUTION_QUOTA, "execution_quota"),
    ):
        yield kind, "", leaves(kind, document.get(key, {}), key)
    resources = document.get("cluster_resources", {})
    yield _template_data("", resources.get("templateData", {}), "cluster_resources.templateData")
    for domain, data in resources.get("customData", {}).items():
        yield _template_data(domain, data, f"cluster_resources.customData.{domain}")
    for config in document.get("queues", {}).get("workflowConfigs", []):
        tags = PlatformLeaf(value=config["tags"], key="queues.workflowConfigs")
        yield builtin_kinds.EXECUTION_QUEUE, config.get("domain", ""), {("tags",): tags}
    for domain, tier in document.get("qualityOfService", {}).get("defaultTiers", {}).items():
        leaf = PlatformLeaf(value=tier, key=f"qualityOfService.defaultTiers.{domain}")
        yield builtin_kinds.QUALITY_OF_SERVICE, domain, {("tier",): leaf}
    yield from _placement(document)


def _template_data(domain: str, data: Mapping[str, Any], key: str) -> tuple[Kind, str, PlatformLeaves]:
    """Template variables; of one that comes from elsewhere, only that is a setting which everyone may read."""
    variables: PlatformLeaves = {
        ("attributes", name): PlatformLeaf(
            value=value if isinstance(value, str) else f"({external_source(value)})", key=f"{key}.{name}"
        )
        for name, value in data.items()
    }
    return builtin_kinds.CLUSTER_RESOURCE, domain, variables


def _placement(document: Mapping[str, Any]) -> Iterator[tuple[Kind, str, PlatformLeaves]]:
    clusters = document.get("clusters", {})
    for key, kind, field in (
        ("defaultExecutionLabel", builtin_kinds.EXECUTION_CLUSTER_LABEL, "value"),
        ("defaultClusterPool", builtin_kinds.CLUSTER_ASSIGNMENT, "cluster_pool_name"),
    ):
        if key in clusters:
            yield kind, "", {(field,): PlatformLeaf(value=clusters[key], key=f"clusters.{key}")}
    for domain, assigned in document.get("clusterPools", {}).get("clusterPoolAssignments", {}).items():
        leaf = PlatformLeaf(value=assigned["pool"], key=f"clusterPools.clusterPoolAssignments.{domain}")
        yield builtin_kinds.CLUSTER_ASSIGNMENT, domain, {("cluster_pool_name",): leaf}
