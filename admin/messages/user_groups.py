"""Groups of users."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.messages.definitions import WrittenAnswer, named_body
from admin.messages.shared import (
    Answer,
    Json,
    ProvenanceAnswer,
    StatesProvenance,
    VersionPruned,
    described_as,
    is_pruned,
)
from admin.services.user_groups import GroupView

GroupBody = named_body("group", {"name": "ml", "users": ["ada", "otto"], "description": "Machine learning."})


class UserGroupAnswer(Answer):
    """A group of users."""

    name: str
    users: list[str]
    groups: Annotated[list[str], Meta(description="Groups whose members are its members too.")]
    description: str | None = None
    version: int
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_view(cls, view: GroupView) -> UserGroupAnswer:
        payload = view.group.payload
        return cls(
            name=view.group.name,
            users=payload.get("users", []),
            groups=payload.get("groups", []),
            description=payload.get("description"),
            version=view.group.version,
            provenance=ProvenanceAnswer.by_state({"definition": view.provenance} if view.provenance else {}),
            version_pruned=is_pruned(view.group.version, view.provenance),
        )


class UserGroupsAnswer(Answer):
    groups: list[UserGroupAnswer]
    token: str | None = None


class GroupWritten(WrittenAnswer):
    group: Annotated[Json | None, described_as("UserGroupAnswer", "GroupDefinition")] = None  # the latter in a plan
