"""Filters and their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from admin.core.placement.candidates import Candidate
from admin.core.placement.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A question to every candidate; one that fails it is not chosen."""

    name: str  #: as it stands in trails
    question: str  #: what it asks, one sentence
    code: str  #: why an execution waits where this filter drops every candidate
    reason: Callable[[Candidate, Workload], str]  #: why it drops a candidate, "" where it does not
    is_permanent: bool = False  #: whether waiting cannot help: the job is too much for the cluster, busy or not


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one filter for one candidate."""

    filter: str
    passed: bool
    reason: str = ""  #: why it did not pass
