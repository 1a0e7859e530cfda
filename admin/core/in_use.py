"""Uses: what would miss a row that is removed, by whom that was set, and which executions stand in the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from admin.core.problems import list_first
from admin.core.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class Use:
    """Something that names or holds a row that is removed."""

    noun: str  #: of the user
    reason: str  #: which one it is, without a full stop
    removed: str = ""  #: the name of what it uses
    removed_noun: str = ""
    version: int | None = None  #: of the row that is the user, or the revision by which it is one
    group: tuple[str, str] | None = None  #: the kind and name of the pool or label that has a removed cluster
    executions: tuple[str, ...] = ()  #: the first of those that are, by name
    registered_by: Provenance | None = None  #: of a launch plan that is the user
    provenance: Provenance | None = None  #: of that version, or of the launch plan
    count: int = 1  #: the users that it stands for

    @property
    def sentence(self) -> str:
        """`pool 'gpu': development names it (revision 41, ana, 3 d ago, 'new racks').`"""
        return f"{self.reason}."

    def as_detail(self) -> dict[str, Any]:
        """All of it as errors show it."""
        detail: dict[str, Any] = {"field": self.noun, "reason": self.sentence}
        if self.removed:
            detail["name"] = self.removed
        if self.count > 1:
            detail["count"] = self.count
        if self.provenance is not None:
            detail["provenance"] = self.provenance.as_json()
        if self.executions:
            detail["executions"] = list(self.executions)
        return detail


def first_uses(uses: Iterable[Use], most: int) -> list[Use]:
    """About as many uses as asked for, the first of each removed row, with one for each row that counts its others."""
    by_removed: dict[tuple[str, str], list[Use]] = {}
    for use in uses:
        by_removed.setdefault((use.removed_noun, use.removed), []).append(use)
    each = max(1, most // max(1, len(by_removed)))
    return [use for of_row in by_removed.values() for use in _first_of_row(of_row, each)]


def _first_of_row(uses: list[Use], most: int) -> list[Use]:
    others = [use for use in uses[most:] if not use.executions]  # one use stands for all executions
    if len(others) < 2:
        return uses
    count, first = sum(use.count for use in others), others[0]
    noun = first.noun if all(use.noun == first.noun for use in others) else "others"
    more = replace(
        first,
        noun=noun,
        reason=f"{first.removed_noun} '{first.removed}': {count} more use it",
        version=None,
        registered_by=None,
        group=None,
        count=count,
    )
    return [*uses[:most], more, *(use for use in uses[most:] if use.executions)]


def describe_executions(count: int, first: Sequence[str]) -> str:
    """`3 unfinished executions were placed by it: a/b/c, a/b/d and 1 more`."""
    were = "execution was" if count == 1 else "executions were"
    return f"{count} unfinished {were} placed by it: {list_first(first, count, count=count)}"


def describe_waiting(count: int, first: Sequence[str]) -> str:
    """`2 executions wait for it by name: a/b/c and 1 more`."""
    waits = "execution waits" if count == 1 else "executions wait"
    return f"{count} {waits} for it by name: {list_first(first, count, count=count)}"


def describe_needing(count: int, first: Sequence[str]) -> str:
    """`2 unfinished executions need its tokens: a/b/c and 1 more`; without names where the caller may see none."""
    need = "execution needs" if count == 1 else "executions need"
    named = f": {list_first(first, count, count=count)}" if first else ""
    return f"{count} unfinished {need} its tokens{named}"


def with_provenance(uses: Iterable[Use], made_by: Mapping[int, Provenance], now: datetime) -> list[Use]:
    """Uses that say by which revision they are so, as far as that is kept, or who registered the launch plan."""
    return [_explained(use, made_by.get(use.version or 0), now) for use in uses]


def _explained(use: Use, made_by: Provenance | None, now: datetime) -> Use:
    provenance = made_by or use.registered_by
    if provenance is None:
        return use
    verb = "" if made_by else "registered by "
    return replace(use, reason=f"{use.reason} ({verb}{provenance.describe(now)})", provenance=provenance)
