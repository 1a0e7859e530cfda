"""Views of descriptions: a revision of what a cluster has, with what differs from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.graph.inventories import differences
from admin.core.graph.trees import Branch
from admin.store import descriptions
from admin.store.descriptions import DescriptionRevision


@dataclass(frozen=True, kw_only=True)
class DescriptionView:
    """A revision of a cluster's description, and in what it differs from the one before."""

    revision: DescriptionRevision
    differences: Sequence[str]
    document: bytes | None = None  #: as JSON: a large one is not read only to be written again
    tree: Branch | None = None


def view_description(connection: Connection, revision: DescriptionRevision) -> DescriptionView:
    """A revision, compared with the one before."""
    before = descriptions.get(connection, revision.cluster, revision.number - 1)
    return DescriptionView(revision=revision, differences=differences_of(before, revision))


def newest_description(connection: Connection, cluster: str) -> DescriptionView | None:
    """The newest revision of a cluster's description, be it that it was removed; None where there never was one."""
    revision = descriptions.newest(connection, cluster)
    return None if revision is None else view_description(connection, revision)


def differences_of(before: DescriptionRevision | None, revision: DescriptionRevision) -> list[str]:
    """In what a revision differs from the one before; nothing where that is no longer kept."""
    if before is None and revision.number > 1:
        return []
    return differences(before.inventory if before is not None else None, revision.inventory)
