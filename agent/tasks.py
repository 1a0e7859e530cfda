"""Tasks: what the engine runs for a lease, under a key by which a later agent finds it again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.engines.base import Task

#: Kubernetes takes 63, and adds `-` and an index of up to five digits to the name of each pod where there are several.
_KEY_LENGTH, _NAME_LENGTH = 57, 40


def key_of(reference: Mapping[str, Any]) -> str:
    """The key of one attempt: at most 57 of `a-z0-9-`, a valid job name in Slurm, Flux and Kubernetes.

    The execution's uid makes it unique, the name makes it readable. A lease of an older admin has no uid; its key has a
    hash of the execution's name instead, which an execution that is created later under the same name has too.
    """
    execution, attempt = reference["id"], str(reference["attempt"])
    unique = reference.get("uid") or _digest(execution)
    if not re.fullmatch(r"[0-9a-f]{1,32}", unique):
        raise ValueError(f"uid: {unique!r} is not one")
    length = min(_NAME_LENGTH, _KEY_LENGTH - len(f"rb-{unique}--{attempt}"))
    name = re.sub(r"[^a-z0-9]+", "-", execution["name"].lower())[:length].strip("-")
    return "-".join(part for part in ("rb", unique, name, attempt) if part)


def _digest(execution: Mapping[str, str]) -> str:
    path = f"{execution['project']}/{execution['domain']}/{execution['name']}"
    return hashlib.blake2b(path.encode(), digest_size=6).hexdigest()


def build_task(
    lease: Mapping[str, Any], *, key: str, cluster: str, jobs: Path, lease_seconds: float | None = None
) -> Task:
    """The task of a lease; its directory is below `jobs`."""
    job = lease["job"]
    return Task(
        key=key,
        job=job,
        directory=jobs / key,
        queue=lease.get("queue") or "",
        priority=_priority(lease),
        environment={**(job.get("environment") or {}), **_variables(lease, key, cluster)},
        time_limit_seconds=lease.get("time_limit_seconds"),
        lease_seconds=lease_seconds,
        config=lease.get("config") or {},
        labels=job.get("labels") or {},
    )


def _priority(lease: Mapping[str, Any]) -> float:
    """The field `priority` of the declared kind of that name, where it is a number; that of other kinds is none."""
    priority = ((lease.get("attributes") or {}).get("WORKFLOW_PRIORITY") or {}).get("priority")
    return priority if isinstance(priority, int | float) else 0


def _variables(lease: Mapping[str, Any], key: str, cluster: str) -> dict[str, str]:
    """Variables that tell a job which execution it is."""
    prefix = ((lease.get("config") or {}).get("raw_output_data_config") or {}).get("output_location_prefix")
    return {
        "RAINBOW_PROJECT": lease["id"]["project"],
        "RAINBOW_DOMAIN": lease["id"]["domain"],
        "RAINBOW_EXECUTION": lease["id"]["name"],
        "RAINBOW_ATTEMPT": str(lease["attempt"]),
        "RAINBOW_CLUSTER": cluster,
        "RAINBOW_KEY": key,
        **({"RAINBOW_OUTPUT_PREFIX": str(prefix)} if prefix else {}),
    }
