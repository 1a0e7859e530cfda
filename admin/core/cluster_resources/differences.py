"""Differences: which namespaces a change would make otherwise, and on which clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from admin.core.cluster_resources.rendering import Rendering
from admin.core.settings.scopes import Scope


class NamespaceAction(StrEnum):
    """What becomes of a namespace."""

    CREATE = "create"
    UPDATE = "update"
    FAIL = "fail"  # it cannot be rendered any more, and stays as it is
    REMOVE = "remove"  # nothing renders it any more: its agents prune it, or report it as orphaned
    LEAVE = "leave"  # its cluster makes no namespaces any more: it stays there, and nobody looks after it


@dataclass(frozen=True, kw_only=True)
class NamespaceChange:
    """What a change does to one namespace."""

    scope: Scope
    namespace: str
    action: NamespaceAction
    clusters: tuple[str, ...]
    objects: tuple[str, ...] = ()  #: of an update: those that differ
    problem: str = ""  #: of a failure: the first reason


def namespace_changes(
    before: Mapping[Scope, Rendering],
    after: Mapping[Scope, Rendering],
    clusters_before: frozenset[str],
    clusters_after: frozenset[str],
) -> Iterator[NamespaceChange]:
    """What becomes of the namespaces of all scopes, where the clusters that make them may change as well."""
    staying = tuple(sorted(clusters_before & clusters_after))
    joining = tuple(sorted(clusters_after - clusters_before))
    leaving = tuple(sorted(clusters_before - clusters_after))
    for scope in sorted({*before, *after}):
        old, new = before.get(scope), after.get(scope)
        if staying and old is not new:
            yield from _change(old, new, staying)
        if joining and new is not None:
            yield _made(new, joining)
        if leaving and old is not None:
            action = NamespaceAction.LEAVE
            yield NamespaceChange(scope=scope, namespace=old.namespace, action=action, clusters=leaving)


def _change(old: Rendering | None, new: Rendering | None, clusters: tuple[str, ...]) -> Iterator[NamespaceChange]:
    if old is None and new is not None:
        yield _made(new, clusters)
    elif new is None and old is not None:
        action = NamespaceAction.REMOVE
        yield NamespaceChange(scope=old.scope, namespace=old.namespace, action=action, clusters=clusters)
    elif old is not None and new is not None and (old.digest, old.problems) != (new.digest, new.problems):
        if new.problems:
            yield _made(new, clusters)
            return
        documents = [{entry.identity: entry.document for entry in rendering.objects} for rendering in (old, new)]
        differing = sorted(
            identity
            for identity in {*documents[0], *documents[1]}
            if documents[0].get(identity) != documents[1].get(identity)
        )
        # What could not be rendered before may be on the clusters all the same, as it was rendered last.
        yield NamespaceChange(
            scope=new.scope,
            namespace=new.namespace,
            action=NamespaceAction.UPDATE,
            clusters=clusters,
            objects=tuple(differing),
        )


def _made(rendering: Rendering, clusters: tuple[str, ...]) -> NamespaceChange:
    """A namespace that is made, or cannot be."""
    return NamespaceChange(
        scope=rendering.scope,
        namespace=rendering.namespace,
        action=NamespaceAction.FAIL if rendering.problems else NamespaceAction.CREATE,
        clusters=clusters,
        problem=rendering.problems[0] if rendering.problems else "",
    )
