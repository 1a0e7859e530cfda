"""Descriptions of clusters: set, changed, removed and read, as revisions of each cluster's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import ANYTHING, Expectation
from admin.core.fleet.clusters import DESCRIBED
from admin.core.graph.compiled import Compiled, document_text, read_folded
from admin.core.graph.shapes import Shapes
from admin.core.graph.trees import tree_of
from admin.core.problems import list_first
from admin.core.provenance import Actor
from admin.errors import DescriptionNotFound, VersionConflict
from admin.services.context import Context
from admin.services.description_views import DescriptionView, differences_of, view_description
from admin.services.fleet import find_cluster
from admin.store import descriptions, fleet
from admin.store.cluster_events import ClusterEvent
from admin.store.descriptions import DescriptionRevision, StoredGraph

#: Differences that the event of a description names.
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class DescriptionWritten:
    """What a write of a description did, or would do."""

    view: DescriptionView | None  #: None where there was nothing to remove
    changed: bool
    dry_run: bool
    note: str | None = None  #: why nothing was changed that was asked for, or what else that means


@dataclass(frozen=True, kw_only=True)
class DescriptionWrite:
    """How a description is to be written."""

    by: Actor
    by_agent: bool = False
    message: str | None = None
    request_id: str | None = None
    expectation: Expectation = ANYTHING
    dry_run: bool = False
    changed_revision: int | None = None  #: the revision that a patch was applied to


class ChangedMeanwhile(Exception):
    """Another revision was stored after a patch had read the one that it changes."""


def current_document(context: Context, name: str) -> tuple[int, bytes]:
    """The revision of a cluster's description and its compressed document; DescriptionNotFound where it has none."""
    with context.database.reading() as connection:
        revision = _find(context, connection, name, None)
        document = descriptions.document(connection, name, revision.number)
    assert document is not None, "a revision with a digest has a document"
    return revision.number, document


def put_description(
    context: Context, name: str, compiled: Compiled | None, write: DescriptionWrite
) -> DescriptionWritten:
    """Set the description of a cluster, or remove it; the same one again makes no revision.

    ChangedMeanwhile where a patch was applied to a revision that is no longer the newest.
    """
    with context.database.transaction(dry_run=write.dry_run) as connection:
        if not write.dry_run:
            fleet.lock(connection)
        find_cluster(context, connection, name)
        return store_description(connection, name, compiled, write, context.clock())


def store_description(
    connection: Connection, name: str, compiled: Compiled | None, write: DescriptionWrite, now: datetime
) -> DescriptionWritten:
    """The same in a transaction that has locked the fleet, of a cluster that there is."""
    before = descriptions.newest(connection, name)
    _check_expectation(name, before, write.expectation)
    if write.changed_revision not in (None, before.number if before is not None else None):
        raise ChangedMeanwhile
    digest = compiled.digest if compiled is not None else None
    if write.by_agent and before is not None and before.digest is not None and not before.by_agent:
        note = _kept_note(name, before)
        return DescriptionWritten(
            view=view_description(connection, before), changed=False, dry_run=write.dry_run, note=note
        )
    if digest == (before.digest if before is not None else None):
        view = None if before is None else view_description(connection, before)
        return DescriptionWritten(view=view, changed=False, dry_run=write.dry_run)
    revision = DescriptionRevision(
        cluster=name,
        number=1 if before is None else before.number + 1,
        at=now,
        author=write.by.author,
        claimed_by=write.by.claimed_by,
        proof=write.by.proof,
        message=write.message,
        by_agent=write.by_agent,
        digest=digest,
        inventory=None if compiled is None else compiled.inventory,
    )
    view = DescriptionView(revision=revision, differences=differences_of(before, revision))
    if not write.dry_run:
        graph = None if compiled is None else StoredGraph(compiled.document, compiled.folded)
        descriptions.add(connection, revision, graph)
        state = replace(fleet.hold_state(connection, name), description=digest)
        event = ClusterEvent(
            cluster=name, at=now, type=DESCRIBED, reason=_event_text(view), request_id=write.request_id
        )
        fleet.save(connection, state, event.by(write.by))
    was_agents = before is not None and before.by_agent and before.digest is not None
    takes_over = was_agents and digest is not None and not write.by_agent
    return DescriptionWritten(
        view=view, changed=True, dry_run=write.dry_run, note=_taken_over_note(name) if takes_over else None
    )


def get_description(
    context: Context, name: str, number: int | None = None, *, with_document: bool = False, with_tree: bool = False
) -> DescriptionView:
    """The description of a cluster, or a revision of it; DescriptionNotFound where there is none."""
    with context.database.reading() as connection:
        revision = _find(context, connection, name, number)
        view = view_description(connection, revision)
        document = descriptions.document(connection, name, revision.number) if with_document else None
        folded = descriptions.folded(connection, [revision.digest or ""]) if with_tree else {}
    return replace(
        view,
        document=None if document is None else document_text(document),
        tree=next((tree_of(read_folded(graph, Shapes()).root) for graph in folded.values()), None),
    )


def current_description(context: Context, connection: Connection, name: str) -> DescriptionView:
    """The description of a cluster, as a transaction sees it; DescriptionNotFound where there is none."""
    return view_description(connection, _find(context, connection, name, None))


def list_descriptions(
    context: Context, name: str, below: int | None, limit: int
) -> tuple[list[DescriptionView], int | None]:
    """A page of the revisions of a cluster's description, newest first, and the number below which the next starts."""
    with context.database.reading() as connection:
        find_cluster(context, connection, name)
        revisions = descriptions.page(connection, name, below, limit + 1)
        last = revisions[limit - 1].number if len(revisions) > limit else None
        oldest = descriptions.get(connection, name, revisions[-1].number - 1) if revisions else None
    pairs = zip(revisions, [*revisions[1:], oldest], strict=False)
    views = [
        DescriptionView(revision=revision, differences=differences_of(before, revision)) for revision, before in pairs
    ]
    return views[:limit], last


def _find(context: Context, connection: Connection, name: str, number: int | None) -> DescriptionRevision:
    find_cluster(context, connection, name)
    if number is None:
        newest = descriptions.newest(connection, name)
        if newest is not None and newest.digest is not None:
            return newest
        raise DescriptionNotFound(
            f"Cluster '{name}' has no description. Its agent sends one if its engine can, or set one with `rainbowctl "
            f"update cluster-description {name} --file FILE`."
        )
    revision = descriptions.get(connection, name, number)
    if revision is None:
        raise DescriptionNotFound(
            f"The description of cluster '{name}' has no revision {number}, or it is no longer kept. `rainbowctl get "
            f"cluster-description {name}` lists them."
        )
    return revision


def _check_expectation(name: str, before: DescriptionRevision | None, expectation: Expectation) -> None:
    version = before.number if before is not None and before.digest is not None else None
    if not expectation.holds(version):
        has = f"is at revision {version}" if version is not None else "does not exist"
        raise VersionConflict(
            f"The description of cluster '{name}' {has}. Read it again and repeat the change.",
            details=[{"field": "version", "reason": f"is {version}." if version is not None else "there is none."}],
        )


def _kept_note(name: str, before: DescriptionRevision) -> str:
    return (
        f"The description of cluster '{name}' that {before.provenance.author} set stays. `rainbowctl delete "
        f"cluster-description {name}` leaves it to the agent."
    )


def _taken_over_note(name: str) -> str:
    return (
        f"All of the description of cluster '{name}' is the operators' from now on: what its agent sends no longer "
        f"changes it. `rainbowctl delete cluster-description {name}` leaves it to the agent."
    )


def _event_text(view: DescriptionView) -> str:
    """What an event says of a new description: its number, in what it differs, and why it was made."""
    text = f"revision {view.revision.number}: {list_first(view.differences, _MOST_NAMED)}"
    return f"{text} ('{view.revision.message}')" if view.revision.message else text
