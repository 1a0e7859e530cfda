"""Filters and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from admin.core.placement.candidates import Candidate
from admin.core.placement.workloads import Workload

#: Why candidates are dropped, by their position; the others pass.
Drops = Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A question to all candidates; those that fail it are not chosen."""

    name: str  #: as it stands in trails
    question: str  #: what it asks of a cluster, one sentence
    code: str  #: why an execution waits where this filter drops every candidate
    drop: Callable[[Sequence[Candidate], Workload], Drops]
    is_permanent: bool = False  #: whether waiting cannot help: the job is too much for the cluster, busy or not


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one filter for one candidate."""

    filter: str
    passed: bool
    reason: str = ""  #: why it did not pass


#: The verdicts of all filters on one candidate, in the filters' order.
Verdicts = tuple[Verdict, ...]
