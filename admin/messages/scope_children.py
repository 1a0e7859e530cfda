"""The scopes right below another, with what is set there."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.messages.pages import token_of
from admin.messages.requests import NAME, PageQuery, ScopeQuery
from admin.messages.shared import LEVELS, ScopeAnswer, SeenAnswer, one_of
from admin.services.scope_children import ScopeChild, ScopeChildren


class ScopesQuery(ScopeQuery, PageQuery):
    search = fields.String(
        load_default="", validate=NAME, metadata={"description": "Only names that contain this text."}
    )


class ScopeChildAnswer(ScopeAnswer):
    """A scope right below another."""

    level: Annotated[str, one_of(*LEVELS)]
    kinds: Annotated[list[str], Meta(description="The kinds that have a row exactly here.")]
    rows_below: Annotated[
        int, Meta(description="How many rows there are below it; of a domain those of its projects are not counted.")
    ]

    @classmethod
    def from_child(cls, child: ScopeChild) -> ScopeChildAnswer:
        level, (kinds, below) = child.scope.level.value, child.marks
        return cls.from_attributes(child, level=level, kinds=list(kinds), rows_below=below)


class ScopesAnswer(SeenAnswer):
    scopes: list[ScopeChildAnswer]
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None

    @classmethod
    def from_children(cls, children: ScopeChildren) -> ScopesAnswer:
        token = token_of(None if children.next_name is None else (children.next_name,))
        return cls(scopes=[ScopeChildAnswer.from_child(child) for child in children.scopes], token=token)
