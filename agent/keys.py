"""Keys: the names of native jobs, by which execution and attempt are enough to find a job again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

_NAME_LENGTH = 40


def key_of(execution: Mapping[str, str], attempt: int) -> str:
    """The key of one attempt: at most 63 of `a-z0-9-`, a valid job name in Slurm, Flux and Kubernetes.

    The hash makes it unique, the name makes it readable.
    """
    path = f"{execution['project']}/{execution['domain']}/{execution['name']}"
    digest = hashlib.blake2b(path.encode(), digest_size=6).hexdigest()
    name = re.sub(r"[^a-z0-9]+", "-", execution["name"].lower())[:_NAME_LENGTH].strip("-")
    return "-".join(part for part in ("rb", digest, name, str(attempt)) if part)
