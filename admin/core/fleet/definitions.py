"""Definitions: clusters, pools and labels as they were declared, before any state is known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from admin.core.changes import LastChange


class FleetKind(Enum):
    """What can be defined; the value is its name in revisions."""

    CLUSTER = "CLUSTER"
    POOL = "POOL"
    LABEL = "LABEL"

    @property
    def noun(self) -> str:
        return self.value.lower()


class Source(Enum):
    """Where a definition comes from."""

    CONFIGURATION = "configuration"  # the admin's own file
    MANAGED = "managed"  # a revision, made while the admin runs
    NAMED = "expected"  # the cluster is not defined, only named by a pool or label; the word is that of the API


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A cluster, pool or label as it was defined."""

    kind: FleetKind
    name: str
    payload: dict[str, Any]
    source: Source
    version: int | None = None  #: number of the last revision that changed it, None for configuration
    last_change: LastChange | None = None  #: when and by whom, as its row keeps it; None where that is not known
