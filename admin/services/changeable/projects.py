"""Projects as revisions change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from admin.core.changes import ANYTHING, PROJECT, Document, Expectation, RowChange, RowKey, RowWrite
from admin.core.cluster_resources.namespaces import collisions
from admin.core.grants import GRANT
from admin.core.permissions import reading
from admin.core.problems import Invalid, Problem, list_first
from admin.core.projects import (
    ProjectState,
    ProjectValues,
    active_after,
    from_payload,
    payload_after,
    projects_after,
    read_values,
    to_payload,
)
from admin.core.provenance import not_kept
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning
from admin.services.access import Access
from admin.services.changeable.base import Changeable, row_change
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.store import attributes, executions, grants, projects, registrations, revisions
from admin.store.grants import GrantFilter, StoredGrant

_FIELD = "project_definition"
#: Rows that an error names.
_MOST_NAMED = 3


def project_write(project_id: str, values: ProjectValues | None, expectation: Expectation = ANYTHING) -> RowWrite:
    """Set some fields of a project and leave the others; None removes it."""

    def change(before: Payload | None) -> Payload | None:
        return None if values is None else payload_after(before, project_id, values)

    return RowWrite(key=RowKey(PROJECT, "", Scope(project=project_id)), change=change, expectation=expectation)


class ChangeableProjects(Changeable):
    """Projects."""

    kinds = (PROJECT,)
    permission = "projects.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        if document["delete"]:
            raise Invalid(Problem(field=_FIELD, reason="stands alone; attributes are changes of their own."))
        definition = document[_FIELD]
        return project_write(definition["id"], read_values(definition, _FIELD))

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        values = None if change.after is None else from_payload(change.after)
        return project_write(change.scope.project, values)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._before = projects.get_many(self.connection, {write.key.scope.project for write in writes})

    def change(self, write: RowWrite) -> RowChange:
        project = self._before.get(write.key.scope.project)
        return row_change(write, to_payload(project) if project else None, project.version if project else None)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterable[Warning]:
        """Where clusters make namespaces, no project may begin to have one of a name that is too long, or another's."""
        fleet = current_fleet(self.context, self.connection)
        if not any(cluster.has_cluster_resources for cluster in fleet.clusters.values()):
            return ()
        active = set(projects.ids(self.connection, ProjectState.ACTIVE))
        after = active_after(active, [change for _, change in rows])
        if after <= active:
            return ()
        settings = self.context.settings
        pattern = settings.cluster_resources.namespaces
        scopes = [Scope(domain, project) for project in sorted(after) for domain in settings.domain_ids()]
        shared = collisions(pattern, scopes, self.context.access.knows)
        for write, change in rows:
            project_id = change.scope.project
            if project_id in active or project_id not in after:
                continue
            own = [scope for scope in scopes if scope.project == project_id]
            reasons = [reason for scope in own if (reason := pattern.name_problem(scope) or shared.get(scope))]
            if reasons:
                with self.draft.collecting_problems(write):
                    raise Invalid(Problem(field="id", reason=reasons[0]))
        return ()

    def check_known(self, access: Access, key: RowKey) -> None:
        """Refuse a project that the caller may not know of as one that would be new, which needs more."""
        if not access.knows(key.scope.project):
            access.check(self.permission)
        elif not access.allows_some(reading(self.permission), key.scope):
            access.check(self.permission, key.scope)

    def check_removals(self, removed: Sequence[RowChange]) -> Iterator[Problem]:
        """A project goes only together with everything that is stored below it."""
        removed_places = {(change.kind, change.scope) for change in self.draft.changes if change.after is None}
        revoked = {change.name for change in self.draft.changes if change.kind == GRANT and change.after is None}
        for project_id in sorted(change.scope.project for change in removed):
            left = [key for key in attributes.keys_below(self.connection, project_id) if key not in removed_places]
            if left:
                reason = f"still has attributes: {self._describe(left)}. Delete them first."
            elif executions.has_project(self.connection, project_id) or registrations.has_project(
                self.connection, project_id
            ):
                reason = "has executions or workflows and cannot be removed. Archive it instead."
            elif any(stored.name not in revoked for stored in self._grants_on(project_id)):
                reason = "still has grants, which another project of this id would have too. Delete them first."
            else:
                continue
            yield Problem(field="project", reason=f"project '{project_id}' {reason}")

    def _describe(self, keys: Sequence[tuple[str, Scope]]) -> str:
        """Some rows, the first of them with the revisions that changed them last."""
        kinds, now = self.context.settings.kinds, self.context.clock()
        first = sorted(keys)[:_MOST_NAMED]
        versions = {(row.kind, row.scope): row.version for row in attributes.exactly(self.connection, first)}
        made_by = revisions.provenance_of(self.connection, versions.values())
        named = []
        for kind, scope in first:
            version = versions[kind, scope]
            by = made_by[version].describe(now) if version in made_by else not_kept(f"revision {version}")
            noun = kinds[kind].noun if kind in kinds else kind
            named.append(f"{noun} at {scope} ({by})")
        return list_first(named, _MOST_NAMED, count=len(keys), separator="; ")

    def _grants_on(self, project_id: str) -> list[StoredGrant]:
        return grants.page(self.connection, GrantFilter(below=Scope(project=project_id)))

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        after = projects_after(self._before, changes, now)
        for change in changes:
            project_id = change.scope.project
            if change.after is None:
                projects.remove(self.connection, project_id)
                continue
            project = replace(after[project_id], version=revision, updated_at=now)
            (projects.add if change.before is None else projects.change)(self.connection, project)
