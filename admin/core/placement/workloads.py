"""Workloads: what a job needs of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from admin.core.resources import Amounts


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is to be placed."""

    key: str  #: project/domain/name; the same key always draws the same cluster
    demand: Amounts = field(default_factory=dict)
    plugins: tuple[str, ...] = ()  #: the cluster must offer one of these; empty for any
    declined: tuple[str, ...] = ()  #: clusters whose agents declined it
