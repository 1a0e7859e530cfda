"""Attributes as revisions change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from admin.core.changes import ANYTHING, Document, Expectation, RowChange, RowKey, RowWrite, rows_after
from admin.core.permissions import reading
from admin.core.problems import Invalid, Problem
from admin.core.projects import projects_after
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.scopes import PLATFORM, Scope, check_scope
from admin.core.settings.warnings import Surroundings, Warning, WarningCode, check_row, warnings_of
from admin.errors import MOST_DETAILS, UndeclaredKind, UnknownProject
from admin.services.access import Access
from admin.services.changeable.base import Changeable, Policy, row_change
from admin.services.context import Context
from admin.services.definitions import told_names, untold_names
from admin.services.scopes import check_active, check_domain, known_projects

#: What one needs to write a quota.
QUOTAS_WRITE = "quotas.write"


def attribute_write(
    kind: Kind, scope: Scope, change: Callable[[Payload | None], Payload | None], expectation: Expectation = ANYTHING
) -> RowWrite:
    """Change one kind's payload at one scope."""
    return RowWrite(key=RowKey(kind.name, "", scope), change=change, expectation=expectation)


def write_permission(kind: Kind) -> str:
    """What one needs to write rows of a kind."""
    return QUOTAS_WRITE if kind.is_quota else ChangeableAttributes.permission


def permission_of_rows(context: Context, kind: str) -> str:
    """What one needs to write rows of a kind, declared or not: quotas bind those who may change all other settings."""
    kinds = context.settings.kinds
    return write_permission(kinds[kind]) if kind in kinds else ChangeableAttributes.permission


class ChangeableAttributes(Changeable):
    """Attributes, of every kind that is declared."""

    kinds = ()  # those of the settings
    permission = "attributes.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        if "resource_type" not in document:
            raise Invalid(Problem(field="resource_type", reason="is missing: name the kind of this attribute."))
        if document["delete"] == ("payload" in document):
            raise Invalid(Problem(field="payload", reason="give either a payload or delete: true."))
        declared = context.settings.kinds.find(document["resource_type"])
        scope = check_scope(**{key: document.get(key, "") for key in Scope._fields})
        declared.check_level(scope.level)
        payload = None if document["delete"] else declared.read(document["payload"])
        return attribute_write(declared, scope, lambda _before: payload)

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        kind = _declared(context, change.kind)
        return attribute_write(kind, change.scope, lambda _: None if change.after is None else kind.read(change.after))

    def check_known(self, access: Access, key: RowKey) -> None:
        if not access.allows(reading(self.permission), key.scope):
            access.check(permission_of_rows(self.context, key.kind), key.scope)

    def check_access(self, access: Access, change: RowChange) -> None:
        access.check(permission_of_rows(self.context, change.kind), change.scope)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._view = self.draft.settings_view
        self._before = self._view.exactly([(write.key.kind, write.key.scope) for write in writes])
        self._projects_before = self._view.projects({write.key.scope.project for write in writes} - {""})
        self._projects_after = projects_after(self._projects_before, self.draft.changes, self.context.clock())
        self._known_projects: list[str] | None = None  # loaded for the first unknown project

    def change(self, write: RowWrite) -> RowChange:
        scope = write.key.scope
        self.context.settings.kinds[write.key.kind].check_level(scope.level)
        if scope.domain:
            check_domain(self.context, scope.domain)
        row = self._before.get((write.key.kind, scope))
        change = row_change(write, row.payload if row else None, row.version if row else None)
        if scope.project:
            self._check_project(change)
        return change

    def _check_project(self, change: RowChange) -> None:
        project_id, policy = change.scope.project, self.draft.options.policy
        before, after = self._projects_before.get(project_id), self._projects_after.get(project_id)
        is_removed_with_project = before is not None and change.after is None
        if after is None and not is_removed_with_project:
            raise UnknownProject.called(project_id, self._suggestions())
        # Archiving a project and writing its last rows may be one change.
        is_archived_here = before is None or after is None or before.state is not after.state
        is_checked = policy is Policy.EDIT or (change.is_real and policy is not Policy.RESTORE_ALL)
        if after is not None and is_checked and not is_archived_here:
            check_active(after)

    def _suggestions(self) -> list[str]:
        """Every project's id; none once enough problems are noted, since finding the closest of many takes long."""
        if self._known_projects is None:
            self._known_projects = known_projects(self.connection, self.draft.options.access)
        return self._known_projects if len(self.draft.problems) < MOST_DETAILS else []

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        settings, draft, access = self.context.settings, self.draft, self.draft.options.access
        are_of_workflows = any(change.scope.workflow for _, change in rows)
        names = self._view.names_known(draft.changes, access.scopes("workflows.read") if are_of_workflows else None)
        told, untold = told_names(access, names), untold_names(access, names)
        by_kind: dict[str, list[tuple[RowWrite, RowChange]]] = defaultdict(list)
        for write, change in rows:
            if change.after is not None:
                by_kind[change.kind].append((write, change))
        for name, written in by_kind.items():
            kind = settings.kinds[name]
            rows_before = self._view.touching(name, [change.scope for _, change in written])
            after = rows_after(rows_before, _of_kind(name, draft.changes))
            variables = self.context.rendering_cache.templates.variables()
            around = Surroundings.of(after.values(), settings.platform, told, untold, variables)
            for write, change in written:
                row = around.rows[change.scope]
                if draft.options.restores:
                    yield from warnings_of(kind, row, around)
                    continue
                with draft.collecting_problems(write):
                    yield from check_row(kind, row, around, refuse_unknown_names=settings.refuse_unknown_names)

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        """Nothing: they are stored together with those of other revisions."""


def _of_kind(kind: str, changes: Iterable[RowChange]) -> list[RowChange]:
    return [change for change in changes if change.kind == kind]


def _declared(context: Context, name: str) -> Kind:
    if name not in context.settings.kinds:
        raise UndeclaredKind(
            f"This would change rows of the kind {name}, which configuration no longer declares. Declare kinds.{name} "
            "again first, or roll back single scopes of other kinds.",
            details=[{"field": "resource_type", "reason": f"{name} is not declared."}],
        )
    return context.settings.kinds[name]


def undeclared(name: str) -> Warning:
    """The warning about the rows of a kind that is not declared."""
    return Warning(
        code=WarningCode.UNDECLARED_KIND,
        message=f"Rows of the kind {name} are stored, but configuration no longer declares it, so they have no effect. "
        f"Declare kinds.{name} again to use them.",
        kind=name,
        scope=PLATFORM,
        field="",
    )
