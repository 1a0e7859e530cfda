"""Use grants: who may use which clusters."""

from __future__ import annotations

from typing import Annotated

from marshmallow import ValidationError, fields, validates_schema

from admin.core.use_grants import GRANTEES, TARGETS, Named
from admin.messages.definitions import WrittenAnswer, named_body
from admin.messages.granted_uses import UseGrantAnswer
from admin.messages.requests import NAME, Fields, PageQuery
from admin.messages.shared import Answer, Json, described_as
from admin.store.use_grants import UseGrantFilter

UseGrantBody = named_body("use_grant", {"pool": "gpu", "user": "ada"})


class UseGrantsQuery(PageQuery):
    cluster = fields.String(validate=NAME)
    cluster_group = fields.String(validate=NAME)
    pool = fields.String(validate=NAME)
    label = fields.String(validate=NAME)
    user = fields.String(validate=NAME)
    group = fields.String(validate=NAME)
    project = fields.String(validate=NAME)

    @validates_schema
    def check_nouns(self, query: Fields, **_: object) -> None:
        for nouns in (TARGETS, GRANTEES):
            given = [noun for noun in nouns if noun in query]
            if len(given) > 1:
                raise ValidationError(f"cannot stand beside {given[0]}: give one of {', '.join(nouns)}.", given[1])


def use_grant_filter(query: Fields) -> UseGrantFilter:
    """The use grants that a query asks for."""
    target, grantee = (
        next((Named(noun, query[noun]) for noun in nouns if noun in query), None) for nouns in (TARGETS, GRANTEES)
    )
    return UseGrantFilter(target=target, grantee=grantee)


class UseGrantsAnswer(Answer):
    use_grants: list[UseGrantAnswer]
    token: str | None = None


class UseGrantWritten(WrittenAnswer):
    use_grant: Annotated[Json | None, described_as("UseGrantAnswer", "UseGrantDefinition")] = (
        None  # the latter in a plan
    )
