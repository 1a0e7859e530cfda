"""Changes of many rows: what they did, or would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self, cast

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.changes import RowChange, RowWrite
from admin.core.problems import Invalid, Problem, dotted, invalid, raise_problems
from admin.core.settings.resolution import Effect
from admin.messages.components import definition_name
from admin.messages.errors import Details
from admin.messages.pages import key_of, parse_number, token_of, wrong_token
from admin.messages.previews import (
    LostRights,
    NamespaceChanges,
    NamespaceChangesAnswer,
    NewExecutionsAnswer,
    NewExecutionsField,
    PreviewAnswer,
    Reach,
    Routes,
    Users,
    lost_rights_of,
    reach_of,
    routes_of,
    users_of,
)
from admin.messages.projects import NewProject
from admin.messages.requests import (
    AuthorshipFields,
    Fields,
    Flag,
    PageQuery,
    PayloadField,
    RequestSchema,
    ResourceType,
    ScopeQuery,
    changes_field,
    load,
)
from admin.messages.shared import Answer, Json, ScopeAnswer, WarningAnswer, one_of
from admin.services.affected_scopes import ChangedValues
from admin.services.changeable.registry import DEFINITION_FIELDS, definition_field, read_write
from admin.services.changes import Changed
from admin.services.context import Context

MOST_CHANGES = 20_000


class _ChangeFields(ScopeQuery):
    resource_type = ResourceType()
    payload = PayloadField(metadata={"description": "As `matching_attributes` holds it under the key of its kind."})
    delete = Flag(load_default=False)
    expected_version = fields.Integer(strict=True, validate=validate.Range(min=0))
    expected_absent = Flag(load_default=False)


#: One row of attributes, or the definition of one row of another noun.
ChangeBody = cast(
    type[RequestSchema],
    _ChangeFields.from_dict(
        {
            field: PayloadField("NewProject" if kind == "PROJECT" else definition_name(kind))
            for field, kind in DEFINITION_FIELDS.items()
        },
        name="ChangeBody",
    ),
)
#: The definitions that a schema reads; the others are read by the rules of their noun.
_DEFINITION_SCHEMAS: dict[str, RequestSchema] = {"project_definition": NewProject()}


class ChangesBody(AuthorshipFields):
    example: ClassVar[Fields] = {
        "changes": [
            {
                "resource_type": "TASK_RESOURCE",
                "domain": "development",
                "payload": {"limits": {"memory": "4Gi"}},
            },
            {"resource_type": "EXECUTION_CLUSTER_LABEL", "project": "flytesnacks", "payload": {"value": "spare"}},
        ],
        "message": "Spare machines for the examples.",
    }

    changes = changes_field()


class ChangesQuery(PageQuery):
    force = Flag(load_default=False, metadata={"description": "Delete clusters, pools and labels that are in use."})
    dry_run = Flag(load_default=False, metadata={"description": "Say what would change, and change nothing."})


def read_changes(context: Context, documents: Sequence[object]) -> list[RowWrite]:
    """The changes of a request; Invalid with the position of everything that is wrong."""
    if not documents or len(documents) > MOST_CHANGES:
        raise invalid("changes", f"holds {len(documents)} changes; give 1 to {MOST_CHANGES}.")
    schema = ChangeBody()
    writes: list[RowWrite] = []
    problems: list[Problem] = []
    for index, document in enumerate(documents):
        try:
            loaded = load(schema, document)
            field = definition_field(loaded)
            if field is not None and field in _DEFINITION_SCHEMAS:
                loaded[field] = load(_DEFINITION_SCHEMAS[field], loaded[field], field)
            writes.append(read_write(context, loaded, index))
        except Invalid as refusal:
            problems += [
                replace(problem, index=index, field=problem.field or f"changes.{index}") for problem in refusal.problems
            ]
    raise_problems(problems)
    return writes


class RowChangeAnswer(ScopeAnswer):
    """A row before and after a change."""

    @classmethod
    def from_change(cls, change: RowChange, **fields: object) -> Self:
        level = change.scope.level.value
        return cls.from_attributes(change, name=change.name or None, resource_type=change.kind, level=level, **fields)


class RowAnswer(RowChangeAnswer):
    index: int | None = None
    name: Annotated[str | None, Meta(description="Of what has a name: a cluster, pool, user, grant …")] = None
    action: Annotated[str, one_of("create", "update", "delete", "unchanged")]
    resource_type: str
    level: str
    before: Json | None = None
    after: Json | None = None
    version: int | None = None


class CountsAnswer(Answer):
    create: int
    update: int
    delete: int
    unchanged: int


class EffectAnswer(ScopeAnswer):
    resource_type: str
    level: str
    field: str
    before: Any = None  # a leaf's value, of the type that its kind gives it
    after: Any = None

    @classmethod
    def from_effect(cls, effect: Effect) -> EffectAnswer:
        return cls.from_attributes(
            effect, resource_type=effect.kind.name, level=effect.scope.level.value, field=dotted(effect.path)
        )


class EffectsAnswer(Answer):
    count: int
    scopes: int
    by_kind: dict[str, int]
    changes: list[EffectAnswer]
    token: str | None = None
    examined: Annotated[int, Meta(description="Scopes that were looked at: those that change, and some below them.")]
    complete: Annotated[bool, Meta(description="Whether that were all known scopes that the change affects.")]

    @classmethod
    def from_values(cls, values: ChangedValues, query: Fields) -> EffectsAnswer:
        effects = values.effects
        key = key_of(query.get("token"), 1)
        start = 0 if key is None else parse_number(key[0][:9], wrong_token("a plan"))
        page = effects[start : start + query["limit"]]
        end = start + len(page)
        return cls(
            count=len(effects),
            scopes=len({effect.scope for effect in effects}),
            by_kind=dict(Counter(effect.kind.name for effect in effects)),
            changes=[EffectAnswer.from_effect(effect) for effect in page],
            token=token_of((end,)) if end < len(effects) else None,
            examined=values.examined,
            complete=values.is_complete,
        )


class ChangedAnswer(Answer):
    rows: list[RowAnswer]
    counts: CountsAnswer
    revision: int
    changed: bool
    dry_run: bool
    warnings: list[WarningAnswer]
    effective: EffectsAnswer | None = None
    users: Users = None
    reach: Reach = None
    executions: PreviewAnswer | None = None
    new_executions: NewExecutionsField = None
    lost_rights: LostRights = None
    namespaces: NamespaceChanges = None
    routes: Routes = None
    left: Annotated[
        Details | None, Meta(description="Of a rollback: rows that are left, changed by the later revision of each.")
    ] = None
    left_count: Annotated[int | None, Meta(description="How many those are.")] = None
    changed_back: Annotated[
        Details | None,
        Meta(description="Of a rollback: the first rows that later revisions changed and changed back, with those."),
    ] = None

    @classmethod
    def from_changed(cls, changed: Changed, query: Fields) -> ChangedAnswer:
        """The `ChangesQuery` names the page of effects that a plan shows."""
        counts = Counter(row.change.action for row in changed.rows)
        effective = EffectsAnswer.from_values(changed.values, query) if changed.dry_run else None
        return cls(
            rows=[
                RowAnswer.from_change(row.change, index=row.index, version=row.version)
                for row in sorted(changed.rows, key=lambda row: row.index or 0)
            ],
            counts=CountsAnswer(**{action: counts[action] for action in CountsAnswer.__struct_fields__}),
            revision=changed.revision,
            changed=changed.is_change,
            dry_run=changed.dry_run,
            warnings=[WarningAnswer.from_warning(warning) for warning in changed.warnings],
            effective=effective,
            users=users_of(changed),
            reach=reach_of(changed),
            executions=PreviewAnswer.of(changed),
            new_executions=NewExecutionsAnswer.of(changed.new_executions),
            lost_rights=lost_rights_of(changed),
            namespaces=NamespaceChangesAnswer.of(changed),
            routes=routes_of(changed),
            left=list(changed.left) or None,
            left_count=changed.left_count or None,
            changed_back=list(changed.changed_back) or None,
        )
