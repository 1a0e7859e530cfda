"""States: what an agent reports of the objects of a namespace on its cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from admin.core.settings.scopes import Scope


class ObjectState(Enum):
    """What became of one object; the value is the word of the API."""

    APPLIED = "applied"
    REPAIRED = "repaired"  # others had changed it, and it was applied again
    DRIFTED = "drifted"  # others have changed it, and it could not be applied again
    FAILED = "failed"
    NOT_OURS = "not ours"  # it exists without this admin's label, and is not touched
    ORPHANED = "orphaned"  # no template makes it any more, and it is not deleted
    PRUNED = "pruned"  # no template made it any more, and it was deleted


#: The states of objects that are as they should be.
WELL = frozenset({ObjectState.APPLIED, ObjectState.REPAIRED, ObjectState.PRUNED})


@dataclass(frozen=True, kw_only=True)
class ObjectReport:
    """What became of one object."""

    object: str  #: kind and name
    state: ObjectState
    message: str = ""  #: in the API server's words


@dataclass(frozen=True, kw_only=True)
class NamespaceReport:
    """What became of the objects of one namespace on one cluster."""

    namespace: str
    project: str
    domain: str
    digest: str  #: of what was to be applied
    exists: bool  #: whether the namespace is there
    objects: tuple[ObjectReport, ...]
    reported_at: datetime | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.domain, self.project)

    @property
    def has_left(self) -> bool:
        """Whether anything of it is left on the cluster."""
        return any(report.state is not ObjectState.PRUNED for report in self.objects)

    @property
    def made(self) -> tuple[str, ...]:
        """The objects that were there."""
        there = (ObjectState.APPLIED, ObjectState.REPAIRED, ObjectState.DRIFTED)
        return tuple(report.object for report in self.objects if report.state in there)

    @property
    def is_well(self) -> bool:
        return all(report.state in WELL for report in self.objects)


def news(before: NamespaceReport | None, after: NamespaceReport) -> Iterator[ObjectReport]:
    """What a report tells that the one before did not: objects in another state, or for another reason."""
    known = {} if before is None else {report.object: report for report in before.objects}
    # The first report of objects that were just made is told too, so that history begins with them.
    for report in after.objects:
        if known.get(report.object) != report and not _is_repeated(known.get(report.object), report):
            yield report


def _is_repeated(before: ObjectReport | None, after: ObjectReport) -> bool:
    """Whether an object is well as it was, if it was repaired since."""
    return before is not None and before.state is ObjectState.REPAIRED and after.state is ObjectState.APPLIED


def worst(reports: Sequence[ObjectReport]) -> ObjectState:
    """The state of a namespace in one word: that of the object which is worst off."""
    order = (
        *(ObjectState.FAILED, ObjectState.NOT_OURS, ObjectState.DRIFTED, ObjectState.ORPHANED),
        *(ObjectState.REPAIRED, ObjectState.PRUNED, ObjectState.APPLIED),
    )
    return min((report.state for report in reports), key=order.index, default=ObjectState.APPLIED)
