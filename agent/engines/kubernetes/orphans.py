"""Orphans: the Jobs of agents that are gone, whose executions are told by what is written on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.engines.base import Handle, Orphan
from agent.engines.kubernetes import names

#: The key of an attempt, which begins with the random id of its execution.
_KEY = re.compile(r"rb-([0-9a-f]{1,32})-.*")


def orphan_of(job: Mapping[str, Any]) -> Orphan | None:
    """The execution of a Job; None of one that Kubernetes removes by itself, or that does not say whose it is."""
    if "ttlSecondsAfterFinished" in job["spec"]:
        return None
    metadata = job["metadata"]
    key = _KEY.fullmatch(metadata["name"])
    parts = names.annotation(job, names.EXECUTION).split("/")
    attempt = names.annotation(job, names.ATTEMPT)
    if key is None or len(parts) != 3 or not all(parts) or not attempt.isdigit():
        return None
    return Orphan(
        Handle(metadata["name"], f"{metadata['namespace']}/{metadata['name']}"),
        id=dict(zip(("project", "domain", "name"), parts, strict=True)),
        uid=key[1],
        attempt=int(attempt),
    )
