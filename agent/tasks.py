"""Tasks: what the engine runs for a lease, under a key by which a later agent finds it again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.engines.base import Task

_NAME_LENGTH = 40


def key_of(execution: Mapping[str, str], attempt: int) -> str:
    """The key of one attempt: at most 63 of `a-z0-9-`, a valid job name in Slurm, Flux and Kubernetes.

    The hash makes it unique, the name makes it readable.
    """
    path = f"{execution['project']}/{execution['domain']}/{execution['name']}"
    digest = hashlib.blake2b(path.encode(), digest_size=6).hexdigest()
    name = re.sub(r"[^a-z0-9]+", "-", execution["name"].lower())[:_NAME_LENGTH].strip("-")
    return "-".join(part for part in ("rb", digest, name, str(attempt)) if part)


def build_task(lease: Mapping[str, Any], *, cluster: str, jobs: Path) -> Task:
    """The task of a lease; its directory is below `jobs`."""
    key = key_of(lease["id"], lease["attempt"])
    job = lease["job"]
    return Task(
        key=key,
        job=job,
        directory=jobs / key,
        queue=lease.get("queue") or "",
        environment={**(job.get("environment") or {}), **_variables(lease, key, cluster)},
        time_limit_seconds=lease.get("time_limit_seconds"),
        config=lease.get("config") or {},
        labels=job.get("labels") or {},
    )


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
