"""Attributes: one kind's payload at one scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from marshmallow import ValidationError, fields, validate
from msgspec import UNSET, Meta, UnsetType

from admin.core.problems import dotted
from admin.core.provenance import Provenance
from admin.core.settings import trails
from admin.core.settings.field_revisions import FieldsByRow, RowVersion, with_revision
from admin.core.settings.kinds import Kind, Kinds, Payload
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope
from admin.core.settings.warnings import Warning
from admin.messages.effective import ConsequenceAnswer, EffectiveAnswer
from admin.messages.previews import (
    ChangedBelow,
    ChangedBelowAnswer,
    NamespaceChanges,
    NamespaceChangesAnswer,
    NewExecutionsAnswer,
    NewExecutionsField,
    PreviewAnswer,
    Routes,
    routes_of,
)
from admin.messages.reading import Body, Claimant, MatchingPayload, Message, Name, NoOrg
from admin.messages.requests import (
    NAME,
    AuthorshipFields,
    Fields,
    Flag,
    LevelField,
    Number,
    PageQuery,
    PayloadField,
    RequestSchema,
    ResourceType,
    ScopeQuery,
    WriteQuery,
)
from admin.messages.shared import (
    Answer,
    Json,
    MatchingAttributes,
    ProvenanceAnswer,
    Revisions,
    ScopeAnswer,
    SeenAnswer,
    Time,
    WarningAnswer,
    described_as,
    matching,
)
from admin.services.attributes import Reading
from admin.services.changes import Changed
from admin.services.effective import Effective
from admin.store.attributes import Filter, StoredAttribute


class ReadQuery(RequestSchema):
    resource_type = ResourceType(required=True)
    exact = Flag(load_default=False, metadata={"description": "Only this scope's own row, nothing inherited."})
    provenance = Flag(
        load_default=False, metadata={"description": "With the revisions that the fields were set by: who, when, why."}
    )


class PatchQuery(WriteQuery):
    resource_type = ResourceType(required=True)


class DeleteQuery(WriteQuery, AuthorshipFields):
    resource_type = ResourceType()


class PathScope(Body):
    """The path's scope again, as Flyte's messages repeat it; a key may be empty, for the path tells."""

    domain: Name | UnsetType = UNSET
    project: Name | UnsetType = UNSET
    workflow: Name | UnsetType = UNSET
    launch_plan: Name | UnsetType = UNSET
    org: NoOrg | UnsetType = UNSET


class AttributesBody(PathScope):
    """The path's scope, and one payload."""

    matching_attributes: MatchingPayload


class PutBody(PathScope):
    example: ClassVar[Json] = {
        "attributes": {
            "matching_attributes": {"task_resource_attributes": {"defaults": {"cpu": "1"}, "limits": {"cpu": "4"}}}
        },
        "message": "Larger machines.",
    }

    attributes: AttributesBody
    message: Message | UnsetType = UNSET
    claimed_by: Claimant | UnsetType = UNSET


def _check_mapping(leaves: object) -> None:
    if not isinstance(leaves, dict):
        raise ValidationError("is not a mapping of fields.")


class PatchBody(AuthorshipFields):
    example: ClassVar[Fields] = {"set": {"limits.memory": "4Gi"}, "inherit": ["defaults.cpu"]}

    set = PayloadField(
        load_default=dict,
        validate=_check_mapping,
        metadata={"description": "Leaves to set, nested or by dotted path."},
    )
    unset = fields.List(fields.String(), load_default=list, metadata={"description": "Leaves to have no value."})
    inherit = fields.List(fields.String(), load_default=list, metadata={"description": "Leaves to leave out."})


class DeleteBody(AuthorshipFields):
    example: ClassVar[Fields] = {"resource_type": "TASK_RESOURCE", "message": "No longer needed."}

    domain = fields.String(validate=NAME)
    project = fields.String(validate=NAME)
    workflow = fields.String(validate=NAME)
    launch_plan = fields.String(validate=NAME)
    org = fields.String(validate=validate.Equal("", error="there are no organisations here; leave it out."))
    resource_type = ResourceType()


class ListQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType(required=True)
    level = LevelField()
    at = Number(metadata={"description": "The rows as they were at this revision."})


class NoEffectQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType(load_default="all")
    level = LevelField()


def attribute_filter(query: Fields, kinds: Kinds) -> Filter:
    """The rows that a query asks for; of every kind where it says so."""
    word = query["resource_type"]
    chosen = tuple(kinds) if word == "all" else (kinds.find(word),)
    return Filter(
        kinds=tuple(kind.name for kind in chosen),
        level=Level(query["level"]) if "level" in query else None,
        **{key: query[key] for key in Scope._fields if key in query},
    )


OriginJson = Annotated[Json, described_as("OriginAnswer")]


class AttributesAnswer(ScopeAnswer):
    matching_attributes: MatchingAttributes


class ReadAnswer(Answer):
    attributes: AttributesAnswer
    version: int | None = None
    updated_at: Time | None = None
    updated_by: str | None = None
    claimed_by: str | None = None
    provenance: Annotated[
        ProvenanceAnswer | None, Meta(description="Of the revision that is the row's version; if asked for.")
    ] = None
    inherited_from: OriginJson | None = None
    origins: Annotated[
        dict[str, OriginJson] | None,
        Meta(description="Of the fields of an inherited value; with provenance also of a row's own."),
    ] = None
    revisions: Revisions = None
    deleted_by: Annotated[
        ProvenanceAnswer | None,
        Meta(description="The revision that deleted the row that stood here, if it is kept; with provenance."),
    ] = None
    consequence: Annotated[
        ConsequenceAnswer | None,
        Meta(description="What happens with the value where executions do not follow it; with provenance."),
    ] = None

    @classmethod
    def from_reading(cls, reading: Reading) -> ReadAnswer:
        row, inherited, set_by = reading.row, reading.inherited, reading.set_by
        revisions = None if set_by is None else ProvenanceAnswer.by_number(set_by.provenance)
        shown = reading.consequence
        consequence = None if shown is None else ConsequenceAnswer.from_consequence(shown)

        def attributes(payload: Payload) -> AttributesAnswer:
            return AttributesAnswer.from_attributes(reading, matching_attributes=matching(reading.kind, payload))

        if row is not None:
            return cls(
                attributes=attributes(row.payload),
                version=row.version,
                updated_at=row.updated_at,
                updated_by=row.updated_by,
                claimed_by=row.claimed_by or None,
                provenance=None if revisions is None else revisions.get(str(row.version)),
                origins=None if set_by is None else _row_origins(reading.kind, row, set_by.fields),
                revisions=revisions,
                consequence=consequence,
            )
        assert inherited is not None
        most_specific = inherited.most_specific
        assert most_specific is not None, "a value has an origin"
        origins = trails.origins(inherited.origins)
        return cls(
            attributes=attributes(inherited.value),
            inherited_from=trails.origin(most_specific),
            origins=origins if set_by is None else with_field_revisions(reading.kind, origins, set_by.fields),
            revisions=revisions,
            deleted_by=None if reading.deleted_by is None else ProvenanceAnswer.from_attributes(reading.deleted_by),
            consequence=consequence,
        )


def _row_origins(kind: Kind, row: Row, fields: FieldsByRow) -> dict[str, Json]:
    """The origins of the fields of a row, each with the revision that set it."""
    here = trails.scope_with(row.scope, level=row.scope.level.value, version=row.version)
    return with_field_revisions(kind, {dotted(path): here for path in kind.leaves(row.payload)}, fields)


def with_field_revisions(kind: Kind, origins: Mapping[str, Json], fields: FieldsByRow) -> dict[str, Json]:
    """The origins of some fields, each with the revision that set it."""
    return {path: with_revision(kind.name, path, origin, fields) for path, origin in origins.items()}


class WriteAnswer(Answer):
    attributes: AttributesAnswer | None = None
    version: Annotated[int | None, Meta(description="Of the row as it is now stored; absent where there is none.")] = (
        None
    )
    revision: int | None = None
    changed: bool
    dry_run: bool
    before: Json | None = None
    warnings: list[WarningAnswer]
    executions: PreviewAnswer | None = None
    new_executions: NewExecutionsField = None
    namespaces: NamespaceChanges = None
    routes: Routes = None
    changed_below: ChangedBelow = None

    @classmethod
    def from_changed(cls, kind: Kind, changed: Changed) -> WriteAnswer:
        [row] = changed.rows
        change = row.change
        attributes = None
        if change.after is not None:
            payload = matching(kind, change.after)
            attributes = AttributesAnswer.from_attributes(change, matching_attributes=payload)
        return cls(
            attributes=attributes,
            version=row.version,
            revision=changed.revision if changed.is_change and not changed.dry_run else row.version,
            changed=changed.is_change,
            dry_run=changed.dry_run,
            before=change.before,
            warnings=[WarningAnswer.from_warning(warning) for warning in changed.warnings],
            executions=PreviewAnswer.of(changed),
            new_executions=NewExecutionsAnswer.of(changed.new_executions),
            namespaces=NamespaceChangesAnswer.of(changed),
            routes=routes_of(changed),
            changed_below=ChangedBelowAnswer.of(changed),
        )


class DeleteAnswer(Answer):
    deleted: bool
    dry_run: bool
    revision: int | None = None
    before: Json | None = None
    warnings: list[WarningAnswer]
    executions: PreviewAnswer | None = None
    new_executions: NewExecutionsField = None
    namespaces: NamespaceChanges = None
    routes: Routes = None
    changed_below: ChangedBelow = None
    afterwards: Annotated[
        EffectiveAnswer | None, Meta(description="What applies at the scope without the row; of a dry run, what would.")
    ] = None

    @classmethod
    def from_changed(cls, changed: Changed, afterwards: Effective | None) -> DeleteAnswer:
        is_deleted = changed.is_change and not changed.dry_run
        return cls(
            deleted=is_deleted,
            dry_run=changed.dry_run,
            revision=changed.revision if is_deleted else None,
            before=changed.rows[0].change.before,
            warnings=[WarningAnswer.from_warning(warning) for warning in changed.warnings],
            executions=PreviewAnswer.of(changed),
            new_executions=NewExecutionsAnswer.of(changed.new_executions),
            namespaces=NamespaceChangesAnswer.of(changed),
            routes=routes_of(changed),
            changed_below=ChangedBelowAnswer.of(changed),
            afterwards=None if afterwards is None else EffectiveAnswer.from_effective(afterwards),
        )


class ConfigurationAnswer(ScopeAnswer):
    attributes: MatchingAttributes
    resource_type: str
    level: str
    version: int
    updated_at: Annotated[Time | None, Meta(description="Absent for rows of the past.")] = None
    updated_by: str | None = None
    claimed_by: str | None = None
    provenance: Annotated[
        ProvenanceAnswer | None,
        Meta(description="Of the revision that is its version; absent for a row of the past if that is not kept."),
    ] = None

    @classmethod
    def from_row(cls, kind: Kind, row: Row, provenance: Provenance | None) -> ConfigurationAnswer:
        stored = row if isinstance(row, StoredAttribute) else None
        return cls.from_attributes(
            row,
            attributes=matching(kind, row.payload),
            resource_type=kind.name,
            level=row.scope.level.value,
            updated_at=stored and stored.updated_at,
            updated_by=stored and stored.updated_by,
            claimed_by=(stored and stored.claimed_by) or None,
            provenance=None if provenance is None else ProvenanceAnswer.from_attributes(provenance),
        )


class NoEffectReason(WarningAnswer):
    """Why a row, or a field of it, has no effect."""

    version: Annotated[int | None, Meta(description="Of the row.")] = None
    refuses: Annotated[bool, Meta(description="Whether executions that follow it are refused.")] = False
    fields: Annotated[list[str], Meta(description="All that this is about.")]
    revisions: Annotated[
        dict[str, int] | None, Meta(description="Which revisions set these fields, as far as known.")
    ] = None

    @classmethod
    def from_reason(cls, warning: Warning, rows: FieldsByRow) -> NoEffectReason:
        known = rows.get(RowVersion(warning.kind, warning.scope, warning.version or 0))
        set_by = (
            {} if known is None else {path: known.revisions[path] for path in warning.fields if path in known.revisions}
        )
        is_partly_known = known is not None and len(set_by) < len(warning.fields)
        return cls.from_warning(
            warning,
            fields=list(warning.fields),
            revisions=set_by or None,
            set_before=known.set_before if known and is_partly_known else None,
        )


class NoEffectAnswer(SeenAnswer):
    warnings: Annotated[
        list[NoEffectReason], Meta(description="One reason for each field; perhaps none before the last page.")
    ]
    revision: int
    examined: Annotated[int, Meta(description="Rows that this page has looked at.")]
    revisions: Revisions = None
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None


class ListAnswer(SeenAnswer):
    configurations: list[ConfigurationAnswer]
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None
