"""The names and labels by which Jobs of executions are found, and the namespaces that they are in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

MANAGED_BY, AGENT = "app.kubernetes.io/managed-by", "rainbow-agent"
#: The key of the attempt, which is the name of its Job too.
KEY = "rainbow/key"
#: The cluster whose agent created it.
CLUSTER = "rainbow/cluster"
#: Whether it ends with the agent's Lease.
GUARDED = "rainbow/guarded"
#: Annotations: whose attempt it is, and of which admin; and why the agent or the janitor ended it, with a sentence.
EXECUTION, ATTEMPT, ENDPOINT = "rainbow/execution", "rainbow/attempt", "rainbow/endpoint"
ENDED, ENDED_MESSAGE = "rainbow/ended", "rainbow/ended-message"

#: Why a Job was ended, as the annotation says it.
CANCELLED, LEASE_OVER, IMAGE_PULL, NOT_STARTED = "CANCELLED", "LEASE_OVER", "IMAGE_PULL", "NOT_STARTED"
PREEMPTED = "PREEMPTED"
#: The label by which a Job waits in a queue of Kueue's.
KUEUE = "kueue.x-k8s.io/queue-name"

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def namespace_of(pattern: str, project: str, domain: str) -> str:
    """The namespace of a project and domain; ValueError if it is none that Kubernetes takes."""
    values = {"project": project, "domain": domain}
    namespace = _VARIABLE.sub(lambda match: values[match.group(1)], pattern)
    if not _LABEL.fullmatch(namespace):
        raise ValueError(
            f"'{namespace}' is no name of a namespace: at most 63 of a-z, 0-9 and '-' (it is made of the project and "
            "the domain, by engineOptions.namespace)"
        )
    return namespace


def unknown_variables(pattern: str) -> list[str]:
    """The variables of a pattern that namespaces do not have."""
    return sorted(set(_VARIABLE.findall(pattern)) - {"project", "domain"})


def cluster_label(cluster: str) -> str:
    """The name of a cluster as the value of a label, which is shorter than names may be."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", cluster):
        return cluster
    return digest(cluster)


def digest(cluster: str) -> str:
    """What stands for the name of a cluster where Kubernetes does not take it."""
    return hashlib.blake2b(cluster.encode(), digest_size=10).hexdigest()


def jobs_path(namespace: str, name: str = "") -> str:
    """The path of a Job, or of those of a namespace."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" + (f"/{name}" if name else "")


def label(item: Mapping[str, Any], name: str) -> str:
    """A label of an object."""
    return str(item["metadata"].get("labels", {}).get(name, ""))


def annotation(item: Mapping[str, Any], name: str) -> str:
    """An annotation of an object."""
    return str(item["metadata"].get("annotations", {}).get(name, ""))
