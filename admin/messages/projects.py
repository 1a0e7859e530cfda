"""Projects and domains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from admin.configuration.settings import Domain
from admin.core.projects import Project, ProjectState
from admin.messages.shared import Answer, Time, one_of


class DomainAnswer(Answer):
    id: str
    name: str


class DomainsAnswer(Answer):
    domains: list[DomainAnswer]

    @classmethod
    def from_domains(cls, domains: Iterable[Domain]) -> DomainsAnswer:
        return cls(domains=[DomainAnswer(id=domain.id, name=domain.name) for domain in domains])


class LabelsAnswer(Answer):
    values: dict[str, str]


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

    @classmethod
    def from_project(cls, project: Project, domains: Iterable[Domain]) -> ProjectAnswer:
        return cls(
            id=project.id,
            name=project.name,
            description=project.description,
            labels=LabelsAnswer(values=project.labels),
            state=project.state.value,
            domains=DomainsAnswer.from_domains(domains).domains,
            created_at=project.created_at,
            updated_at=project.updated_at,
            version=project.version,
        )


class ProjectsAnswer(Answer):
    projects: list[ProjectAnswer]
    token: str | None = None
