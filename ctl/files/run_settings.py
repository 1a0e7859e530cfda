"""The settings that launch plans and executions have in common: as files write them, and as the API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.client.answers import Document
from ctl.client.facts import REFUSED_FIELDS, SCHEMAS
from ctl.client.kinds import Schema
from ctl.client.words import fold

#: Keys of Flyte's that have no meaning here, as `fold` writes them, each with the reason.
REFUSED = {fold(key): reason for key, reason in REFUSED_FIELDS.items()}
#: Keys that the API has too.
_SAME = (
    "default_inputs",
    "fixed_inputs",
    "cluster",
    "strategy",
    "rules",
    "max_parallelism",
    "interruptible",
    "overwrite_cache",
    "raw_output_data_config",
    "execution_env_assignments",
    "retry",
    "token_pools",
)

#: The tokens that an execution needs.
TOKEN_POOLS_SCHEMA: Schema = SCHEMAS["job"]["properties"]["token_pools"]

#: Flyte's older form of an identity.
AUTH_ROLE_SCHEMA: Schema = {
    "type": "object",
    "properties": {key: {"type": "string"} for key in ("assumable_iam_role", "kubernetes_service_account")},
}

#: Where a field of the API stands in a file, by the start of its path.
PATHS = {
    "spec.cluster_assignment": ("cluster_pool",),
    "spec.execution_cluster_label": ("execution_cluster_label", "target_execution_cluster"),
    "spec.security_context.run_as.k8s_service_account": (
        "kube_service_acct",
        "auth_role.kubernetes_service_account",
        "security_context",
    ),
    "spec.security_context.run_as.iam_role": ("iam_role_arn", "auth_role.assumable_iam_role", "security_context"),
    "spec.security_context": ("security_context", "kube_service_acct", "iam_role_arn", "auth_role"),
    "spec.raw_output_data_config": ("raw_output_data_config", "output_location_prefix"),
    "spec.labels.values": ("labels.values", "labels"),
    "spec.annotations.values": ("annotations.values", "annotations"),
    "spec.envs.values": ("envs.values", "envs"),
    "spec": ("",),
}


def settings_spec(values: Mapping[str, Any]) -> Document:
    """Settings of a file, by their keys in snake_case, as the API has them."""
    spec = {key: values[key] for key in _SAME if key in values}
    if values.get("cluster_pool"):
        spec["cluster_assignment"] = {"cluster_pool_name": values["cluster_pool"]}
    if values.get("execution_cluster_label"):
        spec["execution_cluster_label"] = {"value": values["execution_cluster_label"]}
    for key in ("labels", "annotations", "envs"):
        if key in values:
            entries = values[key]
            is_wrapped = isinstance(entries, dict) and isinstance(entries.get("values"), (dict, list))
            spec[key] = entries if is_wrapped else {"values": entries}
    context = dict(values.get("security_context") or {})
    run_as = dict(context.pop("runAs", None) or context.get("run_as") or {})
    role = values.get("auth_role") or {}
    accounts = {
        "k8s_service_account": values.get("kube_service_acct") or role.get("kubernetes_service_account"),
        "iam_role": values.get("iam_role_arn") or role.get("assumable_iam_role"),
    }
    run_as |= {key: name for key, name in accounts.items() if name}
    if run_as or "security_context" in values:
        spec["security_context"] = {**context, **({"run_as": run_as} if run_as else {})}
    if values.get("output_location_prefix"):
        spec["raw_output_data_config"] = {"output_location_prefix": values["output_location_prefix"]}
    if (urgency := values.get("quality_of_service")) is not None:
        spec["quality_of_service"] = urgency if isinstance(urgency, dict) else {"tier": urgency}
    return spec
