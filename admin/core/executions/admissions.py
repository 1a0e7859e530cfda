"""Admissions: in which order executions are asked for that a cluster has room for, and what keeps some waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from admin.core.executions.attempts import Change
from admin.core.executions.quotas import QUOTA_FULL
from admin.core.executions.tokens import WAITING_FOR_TOKENS
from admin.core.placement.decisions import ASSIGNED

#: The reason of executions whose cluster has yet to make their namespace.
NAMESPACE_NOT_READY = "NAMESPACE_NOT_READY"
#: The reasons of executions that wait at a cluster which has room for them.
HELD_BACK = frozenset({WAITING_FOR_TOKENS, QUOTA_FULL, NAMESPACE_NOT_READY})
#: The type of the event by which an execution is told so.
WAITING = "WAITING"
#: Of executions that are alike, so many are asked for after the first that is refused: those that stand in line.
MOST_IN_LINE = 4


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why an execution waits though its cluster has room."""

    code: str  #: of its reason
    message: str  #: for everybody, without what changes all the time: it is stored when it differs
    retry_seconds: float  #: when to ask again, where nothing wakes its agent before


def hold_back(refusal: Refusal) -> Change:
    """Have an execution wait at its cluster for something else than the cluster's agent."""
    return Change(kind=WAITING, values={"reason": refusal.code, "reason_message": refusal.message})


def admitted(reason: str, cluster: str | None) -> dict[str, str]:
    """The new values of an execution that waits for nothing but the agent of its cluster any more."""
    if reason not in HELD_BACK:
        return {}
    return {"reason": ASSIGNED, "reason_message": f"It has what it waited for, and cluster '{cluster}' has the lease."}


class Queued(Protocol):
    """The fields of an execution by which it is ordered."""

    id: int
    tier: int
    priority: int

    @property
    def kind(self) -> Hashable: ...


Candidate = TypeVar("Candidate", bound=Queued)


class Line(Generic[Candidate]):
    """Executions that a cluster has room for, of which the next is found.

    They go by tier, priority and age. Among those that share something with others, such as tokens, the one whose
    project has the smallest share of it goes first; their shares change while they are served.
    """

    def __init__(self, candidates: Iterable[Candidate], share: Callable[[Candidate], float | None]) -> None:
        self._share = share  #: None for one that shares nothing
        self._kinds: dict[Hashable, deque[Candidate]] = {}
        self._refusals: dict[Hashable, tuple[Refusal, int]] = {}
        self.extend(candidates)

    def extend(self, candidates: Iterable[Candidate]) -> None:
        """Have others stand behind those of their kinds."""
        for candidate in candidates:
            self._kinds.setdefault(candidate.kind, deque()).append(candidate)

    def __iter__(self) -> Iterator[Candidate]:
        while (candidate := self._next()) is not None:
            yield candidate

    def _next(self) -> Candidate | None:
        """Take out the one that goes first."""
        heads = [(queue[0], self._share(queue[0])) for queue in self._kinds.values() if queue]
        shared = min(((_rank(head), share, head.id, head) for head, share in heads if share is not None), default=None)
        others = min(((_rank(head), head.id, head) for head, share in heads if share is None), default=None)
        first = [entry[-1] for entry in (shared, others) if entry is not None]
        if not first:
            return None
        candidate = min(first, key=lambda head: (_rank(head), head.id))
        self._kinds[candidate.kind].popleft()
        return candidate

    def refuse(self, candidate: Candidate, refusal: Refusal) -> list[Candidate]:
        """Note that one is refused; returns those of its kind that need not be asked for any more."""
        _, count = self._refusals.get(candidate.kind, (refusal, 0))
        self._refusals[candidate.kind] = (refusal, count + 1)
        if count + 1 < MOST_IN_LINE:
            return []
        rest, self._kinds[candidate.kind] = list(self._kinds[candidate.kind]), deque()
        return rest

    def refusal_of(self, kind: Hashable) -> Refusal | None:
        """Why executions of a kind wait; None where none of them was refused."""
        return self._refusals[kind][0] if kind in self._refusals else None

    @property
    def rest(self) -> list[Candidate]:
        """Those that were not asked for."""
        return [candidate for queue in self._kinds.values() for candidate in queue]


def _rank(candidate: Queued) -> tuple[int, int]:
    return candidate.tier, -candidate.priority
