"""Definitions of clusters, pools and labels as they were at a revision."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.fleet.definitions import FleetKind
from admin.messages.components import definition_name
from admin.messages.requests import NAME, Number, OneOf, PageQuery
from admin.messages.shared import Answer, Json, ProvenanceAnswer, described_as, one_of
from admin.services.past_definitions import DefinitionsAt, StoredDefinition

_KINDS = [kind.value for kind in FleetKind]
#: The names under which the definition of each kind is described.
_DESCRIPTIONS = [definition_name(kind.noun) for kind in FleetKind]


class DefinitionsQuery(PageQuery):
    resource_type = fields.String(required=True, validate=OneOf([*_KINDS, *(kind.noun for kind in FleetKind)]))
    name = fields.String(validate=NAME)
    at = Number(metadata={"description": "As of this revision; without it, as they are."})


class DefinitionAnswer(Answer):
    """A cluster, pool or label as a revision left it; what configuration declares is kept by no revision."""

    resource_type: Annotated[str, one_of(*_KINDS)]
    name: str
    definition: Annotated[Json, described_as(*_DESCRIPTIONS)]
    version: int
    provenance: Annotated[
        ProvenanceAnswer | None, Meta(description="Of the revision that is its version; absent if that is not kept.")
    ] = None

    @classmethod
    def from_stored(cls, stored: StoredDefinition) -> DefinitionAnswer:
        provenance = stored.provenance
        return cls(
            resource_type=stored.definition.kind.value,
            name=stored.definition.name,
            definition=stored.definition.payload,
            version=stored.definition.version or 0,
            provenance=None if provenance is None else ProvenanceAnswer.from_attributes(provenance),
        )


class DefinitionsAnswer(Answer):
    definitions: list[DefinitionAnswer]
    revision: int
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None

    @classmethod
    def from_definitions(cls, definitions: DefinitionsAt, token: str | None) -> DefinitionsAnswer:
        entries = [DefinitionAnswer.from_stored(stored) for stored in definitions.definitions]
        return cls(definitions=entries, revision=definitions.revision, token=token)
