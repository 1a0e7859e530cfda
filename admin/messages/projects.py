"""Projects and domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar

from marshmallow import fields, validate
from msgspec import Meta

from admin.configuration.settings import Domain
from admin.core import names
from admin.core.projects import Archiving, Project, ProjectState
from admin.core.provenance import Provenance
from admin.messages.previews import NamespaceChanges, NamespaceChangesAnswer
from admin.messages.requests import (
    PRINTABLE,
    AuthorshipFields,
    Fields,
    Flag,
    OneOf,
    PageQuery,
    Pattern,
    RequestSchema,
    Word,
)
from admin.messages.shared import Answer, ProvenanceAnswer, SeenAnswer, Time, VersionPruned, is_pruned, one_of
from admin.services.changes import Changed


class LabelsBody(RequestSchema):
    values = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)


class ProjectFields(RequestSchema):
    name = fields.String(validate=[validate.Length(min=1, max=64), PRINTABLE])
    description = fields.String(validate=[validate.Length(max=300), PRINTABLE])
    labels = fields.Nested(LabelsBody)
    state = Word("ACTIVE", "ARCHIVED", read=ProjectState)


class NewProject(ProjectFields):
    id = fields.String(
        required=True,
        validate=Pattern(f"^{names.DNS_LABEL}$", error=f"is not a project id: use {names.DNS_LABEL_RULE}."),
    )


class CreateBody(AuthorshipFields):
    example: ClassVar[Fields] = {
        "project": {"id": "search", "name": "Search", "description": "Ranks.", "labels": {"values": {"team": "search"}}}
    }

    project = fields.Nested(NewProject, required=True)


class UpdateBody(ProjectFields, AuthorshipFields):
    """What to change; what only the admin sets may be repeated as it was read, and has no effect."""

    example: ClassVar[Fields] = {"description": "Examples to start from.", "labels": {"values": {"team": "examples"}}}

    id = fields.String()
    domains = fields.Raw()
    created_at = fields.Raw()
    updated_at = fields.Raw()
    version = fields.Raw()
    provenance = fields.Raw()
    version_pruned = fields.Raw()
    org = fields.String(validate=validate.Equal("", error="there are no organisations here; leave it out."))


class ProjectQuery(RequestSchema):
    provenance = Flag(
        load_default=False, metadata={"description": "With the revisions that made it as it is: who, when, why."}
    )


class ProjectsQuery(PageQuery, ProjectQuery):
    state = fields.String(load_default="ACTIVE", validate=OneOf(["ACTIVE", "ARCHIVED", "ALL"]))


class DomainAnswer(Answer):
    id: str
    name: str


class DomainsAnswer(Answer):
    domains: list[DomainAnswer]

    @classmethod
    def from_domains(cls, domains: Iterable[Domain]) -> DomainsAnswer:
        return cls(domains=[DomainAnswer.from_attributes(domain) for domain in domains])


class LabelsAnswer(Answer):
    values: dict[str, str]


class ArchivingAnswer(Answer):
    """What archiving a project means for its executions."""

    waiting: Annotated[int, Meta(description="They still start.")]
    running: int
    first_waiting: Annotated[list[str], Meta(description="By name, the oldest first.")]
    message: str


class ProjectAnswer(Answer):
    id: str
    name: str
    description: str
    labels: LabelsAnswer
    state: Annotated[str, one_of(*(state.value for state in ProjectState))]
    domains: list[DomainAnswer]
    created_at: Time
    updated_at: Time
    version: Annotated[int, Meta(description="0 for one that configuration brought.")]
    archiving: Annotated[ArchivingAnswer | None, Meta(description="Of a dry run that archives it.")] = None
    namespaces: NamespaceChanges = None
    provenance: Annotated[
        dict[str, ProvenanceAnswer] | None,
        Meta(description="Of its `definition`, and of `archived` while it is so; if asked for."),
    ] = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_project(
        cls,
        project: Project,
        domains: Iterable[Domain],
        *,
        archiving: Archiving | None = None,
        changed: Changed | None = None,
        provenance: Mapping[str, Provenance] | None = None,
    ) -> ProjectAnswer:
        return cls.from_attributes(
            project,
            labels=LabelsAnswer(values=project.labels),
            state=project.state.value,
            domains=DomainsAnswer.from_domains(domains).domains,
            archiving=archiving
            and ArchivingAnswer.from_attributes(archiving, first_waiting=list(archiving.first_waiting)),
            namespaces=changed and NamespaceChangesAnswer.of(changed),
            provenance=None if provenance is None else ProvenanceAnswer.by_state(provenance),
            version_pruned=None if provenance is None else is_pruned(project.version, provenance.get("definition")),
        )


class ProjectsAnswer(SeenAnswer):
    projects: list[ProjectAnswer]
    token: str | None = None
