"""Keys: what a native job is called, so that it can be found again by execution and attempt alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

_SHOWN = 40


def key_of(execution: Mapping[str, str], attempt: int) -> str:
    """The key of one attempt: at most 63 of `a-z0-9-`, fit for Slurm, Flux and Kubernetes.

    The hash makes it unique, the name is for people.
    """
    whole = f"{execution['project']}/{execution['domain']}/{execution['name']}"
    digest = hashlib.blake2b(whole.encode(), digest_size=6).hexdigest()
    name = re.sub(r"[^a-z0-9]+", "-", execution["name"].lower())[:_SHOWN].strip("-")
    return "-".join(part for part in ("rb", digest, name, str(attempt)) if part)
