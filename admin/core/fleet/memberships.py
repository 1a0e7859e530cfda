"""Memberships: which clusters changes of pools and labels are about, and which joined or left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from admin.core.changes import RowChange
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import DEFAULT_STRATEGY, SPILL
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Payload

_GROUPS = (FleetKind.POOL.value, FleetKind.LABEL.value)


def members_of(payload: Payload | None) -> set[str] | None:
    """The clusters of a pool or label; None where it is not defined."""
    return None if payload is None else {member["id"] for member in payload.get("members", ())}


def regrouped_clusters(change: RowChange) -> set[str]:
    """The members of a pool or label before and after a change of its members or their weights; else none."""
    if not change.name or change.kind not in _GROUPS:  # a kind of attributes may be called POOL
        return set()
    if (change.before or {}).get("members") == (change.after or {}).get("members"):
        return set()
    return (members_of(change.before) or set()) | (members_of(change.after) or set())


def membership_changes(changes: Iterable[RowChange]) -> dict[str, int]:
    """The revision that last added each cluster to a pool or label or removed it, from changes newest first."""
    revisions: dict[str, int] = {}
    for change in changes:
        before, after = (members_of(payload) or set() for payload in (change.before, change.after))
        for cluster in before ^ after:
            revisions.setdefault(cluster, change.revision)
    return revisions


def joining_revisions(changes: Sequence[RowChange]) -> dict[str, int]:
    """The revision that added each cluster which a pool or label has, from its changes newest first."""
    members = (members_of(changes[0].after) if changes else None) or set()
    return {cluster: number for cluster, number in membership_changes(changes).items() if cluster in members}


class MemberChanges(NamedTuple):
    """Which clusters joined a pool and left it within a window, and by which revisions."""

    joined: Mapping[str, Provenance]
    left: Mapping[str, Provenance]  #: without those that joined it again

    def describe(self, cluster: str) -> list[str]:
        """What happened to the membership of a cluster."""
        words = (("joined the pool", self.joined.get(cluster)), ("left the pool", self.left.get(cluster)))
        return [f"{verb} by {made_by.describe(None)}" for verb, made_by in words if made_by is not None]


def member_changes(changes: Iterable[tuple[RowChange, Provenance]]) -> MemberChanges:
    """What changes of a pool's definition, oldest first, did to its members.

    The first members of a new pool have not joined it; one that is defined again goes on with those it had.
    """
    joined: dict[str, Provenance] = {}
    left: dict[str, Provenance] = {}
    deleted_with: set[str] | None = None  #: the members that it had when it was deleted
    for change, made_by in changes:
        before, after = members_of(change.before), members_of(change.after)
        if after is None:
            deleted_with = before
            continue
        if before is None:
            before = after if deleted_with is None else deleted_with
        for cluster in after - before:
            joined[cluster] = made_by
            left.pop(cluster, None)
        left |= dict.fromkeys(before - after, made_by)
    return MemberChanges(joined, left)


class Regrouping(NamedTuple):
    """A change of the members, weights, strategy or rules of a pool."""

    change: str  #: what it changed, in words
    made_by: Provenance


def regroupings(changes: Iterable[tuple[RowChange, Provenance]]) -> list[Regrouping]:
    """What changes of a pool's definition, oldest first, did to its members, their weights and its strategy."""
    regrouped: list[Regrouping] = []
    deleted: Payload | None = None
    for change, made_by in changes:
        before = change.before or deleted
        if change.after is None:
            deleted = before
        elif before is not None:
            words = "; ".join(_differences(before, change.after))
            regrouped += [Regrouping(words, made_by)] if words else []
    return regrouped


def _differences(before: Payload, after: Payload) -> Iterator[str]:
    weights, new_weights = (
        {member["id"]: member.get("weight", 1) for member in payload.get("members", ())} for payload in (before, after)
    )
    for cluster in dict.fromkeys((*weights, *new_weights)):
        if weights.get(cluster) != new_weights.get(cluster):
            old, new = (f"{each[cluster]:.15g}" if cluster in each else "none" for each in (weights, new_weights))
            yield f"weight of {cluster} {old} -> {new}"
    strategy, new_strategy = (payload.get("strategy", DEFAULT_STRATEGY) for payload in (before, after))
    if strategy != new_strategy:
        yield f"strategy {strategy} -> {new_strategy}"
    if before.get("rules") != after.get("rules") and strategy == new_strategy:
        yield "other rules"
    is_reordered = weights.keys() == new_weights.keys() and list(weights) != list(new_weights)
    if is_reordered and strategy == new_strategy == SPILL:
        yield f"order {', '.join(weights)} -> {', '.join(new_weights)}"
