"""The reach of a row: how the scopes below stand to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from admin.core.executions.own_settings import FieldEffect
from admin.core.problems import dotted
from admin.core.settings import trails
from admin.core.settings.field_revisions import FieldsByRow
from admin.core.settings.kinds import Kind
from admin.core.settings.reach import Relation, ScopeRelation
from admin.core.settings.scopes import Scope
from admin.messages.attributes import ConfigurationAnswer, OriginJson, with_field_revisions
from admin.messages.effective import ConsequenceAnswer, FieldEffectAnswer
from admin.messages.pages import key_of, token_of
from admin.messages.requests import PageQuery, ResourceType, ScopeQuery
from admin.messages.shared import Answer, ProvenanceAnswer, Revisions, ScopeAnswer, one_of
from admin.services.consequences import ShownConsequence
from admin.services.reach import Reach

_RELATION = one_of(*Relation)


class ReachQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType(required=True)


class RelationAnswer(ScopeAnswer):
    """How a scope stands to a broader row."""

    level: str
    relation: Annotated[str, _RELATION]
    fields: Annotated[dict[str, Annotated[str, _RELATION]], Meta(description="The same of each field of the row.")]
    version: Annotated[int | None, Meta(description="Of the row of the kind at this scope, where it has one.")] = None
    origins: Annotated[
        dict[str, OriginJson] | None,
        Meta(description="What decides each field that does not follow the row, and which revision set it there."),
    ] = None
    consequence: Annotated[
        ConsequenceAnswer | None,
        Meta(description="Where the scope has the row's pool or label, and executions go by another one."),
    ] = None

    field_effects: Annotated[
        list[FieldEffectAnswer] | None,
        Meta(
            description="The fields that the scope has as the row says, and that executions there do not follow: the "
            "launch plan or the workflow's job says them itself, or they are above a limit."
        ),
    ] = None

    @classmethod
    def from_relation(
        cls,
        kind: Kind,
        relation: ScopeRelation,
        rows: FieldsByRow,
        outranked: ShownConsequence | None,
        effects: Sequence[FieldEffect],
    ) -> RelationAnswer:
        fields = {dotted(path): field.value for path, field in relation.fields.items()}
        consequence = outranked and ConsequenceAnswer.from_consequence(outranked)
        level = relation.scope.level.value
        origins = with_field_revisions(kind, trails.origins(relation.origins), rows) or None
        field_effects = [FieldEffectAnswer.from_effect(effect) for effect in effects] or None
        return cls.from_attributes(
            relation,
            level=level,
            fields=fields,
            origins=origins,
            consequence=consequence,
            field_effects=field_effects,
        )


class RelationCounts(Answer):
    """How many scopes of a page stand to a row in each way, with all of its fields; those that differ are apart."""

    follows: int
    says_otherwise: int
    says_the_same: int
    follows_another: Annotated[int, Meta(description="A row in between decides.")]
    differs_by_field: Annotated[int, Meta(description="The fields of the row stand in several ways there.")]
    outranked: Annotated[
        int, Meta(description="Of those that follow or say the same, where executions go by another pool or label.")
    ]
    not_followed: Annotated[
        int, Meta(description="Where executions do not follow a field that the scope has as the row says.")
    ]


class ReachAnswer(Answer):
    row: ConfigurationAnswer
    row_revisions: Annotated[dict[str, int] | None, Meta(description="Which revisions set the row's fields.")] = None
    revision: int
    counts: Annotated[RelationCounts, Meta(description="Of the scopes of this page.")]
    scopes: list[RelationAnswer]
    revisions: Revisions = None
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None

    @classmethod
    def from_reach(cls, reach: Reach) -> ReachAnswer:
        counts = Counter(relation.relation for relation in reach.relations if not relation.is_mixed)
        mixed = sum(relation.is_mixed for relation in reach.relations)
        return cls(
            row=ConfigurationAnswer.from_row(reach.kind, reach.row, reach.provenance.get(reach.row.version)),
            row_revisions=None if reach.fields is None else dict(reach.fields),
            revision=reach.revision,
            counts=RelationCounts(
                **{relation.value: counts[relation] for relation in Relation},
                differs_by_field=mixed,
                outranked=len(reach.outranked),
                not_followed=len(reach.field_effects),
            ),
            scopes=[
                RelationAnswer.from_relation(
                    reach.kind,
                    relation,
                    reach.set_by.fields,
                    reach.outranked.get(relation.scope),
                    reach.field_effects.get(relation.scope, ()),
                )
                for relation in reach.relations
            ],
            revisions=ProvenanceAnswer.by_number(reach.provenance),
            token=token_of(reach.last),
        )


def scope_of_token(token: str | None) -> Scope | None:
    """The scope after which a page begins; None for the first."""
    key = key_of(token, len(Scope._fields))
    return None if key is None else Scope(*key)
