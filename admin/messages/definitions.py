"""Definitions of what has a name, such as pools, and what a write of one changed."""

from __future__ import annotations

from typing import Annotated, Any, Self, cast

from marshmallow import fields

from admin.core.fleet.definitions import FleetKind
from admin.messages.components import camel_title, definition_name
from admin.messages.previews import (
    LostRights,
    NamespaceChanges,
    NamespaceChangesAnswer,
    NewExecutionsAnswer,
    NewExecutionsField,
    PreviewAnswer,
    Reach,
    Users,
    lost_rights_of,
    reach_of,
    users_of,
)
from admin.messages.requests import AuthorshipFields, Fields, Flag, PageQuery, PayloadField, RequestSchema, WriteQuery
from admin.messages.shared import Answer, Json, WarningAnswer, described_as
from admin.services.changes import Changed


class DefinitionsPageQuery(PageQuery):
    unused = Flag(
        load_default=False,
        metadata={
            "description": "Only those that no setting, launch plan, pool, label, configuration, use grant or "
            "unfinished execution has, so that they can be deleted without force."
        },
    )


class DefinitionDeleteQuery(WriteQuery):
    force = Flag(load_default=False, metadata={"description": "Delete it although it is in use."})


_DEFINITION_EXAMPLES: dict[FleetKind, Fields] = {
    FleetKind.CLUSTER: {"name": "east", "cost": 3, "capacity": {"cpu": "8", "memory": "32Gi", "gpu": "2"}},
    FleetKind.POOL: {"name": "gpu", "strategy": "spill", "members": [{"id": "east"}, {"id": "local"}]},
    FleetKind.LABEL: {"name": "spare", "members": [{"id": "east", "weight": 1}, {"id": "local", "weight": 3}]},
}


def definition_body(kind: FleetKind) -> type[RequestSchema]:
    """The body that defines a cluster, pool or label."""
    return named_body(kind.noun, _DEFINITION_EXAMPLES[kind])


def named_body(noun: str, example: Fields) -> type[RequestSchema]:
    """The body that defines something with a name."""
    shape: dict[str, fields.Field[Any]] = {noun: PayloadField(definition_name(noun), required=True)}
    body = cast(type[RequestSchema], AuthorshipFields.from_dict(shape, name=f"{camel_title(noun)}Body"))
    body.example = {noun: example}
    return body


class WrittenAnswer(Answer):
    """What a write of a definition did."""

    version: int | None = None
    revision: int
    changed: bool
    dry_run: bool
    warnings: list[WarningAnswer]
    users: Users = None
    reach: Reach = None
    executions: PreviewAnswer | None = None
    new_executions: NewExecutionsField = None
    lost_rights: LostRights = None
    namespaces: NamespaceChanges = None

    @classmethod
    def from_changed(cls, changed: Changed, **definition: Json | None) -> Self:
        return cls.from_attributes(
            changed,
            users=users_of(changed),
            reach=reach_of(changed),
            executions=PreviewAnswer.of(changed),
            new_executions=NewExecutionsAnswer.of(changed.new_executions),
            lost_rights=lost_rights_of(changed),
            namespaces=NamespaceChangesAnswer.of(changed),
            version=changed.rows[0].version,
            changed=changed.is_change,
            warnings=[WarningAnswer.from_warning(warning) for warning in changed.warnings],
            **definition,
        )


class ClusterWritten(WrittenAnswer):
    cluster: Annotated[Json | None, described_as("ClusterAnswer", "ClusterDefinition")] = None  # the latter in a plan


class PoolWritten(WrittenAnswer):
    pool: Annotated[Json | None, described_as("GroupAnswer", "PoolDefinition")] = None


class LabelWritten(WrittenAnswer):
    label: Annotated[Json | None, described_as("GroupAnswer", "LabelDefinition")] = None
