"""All definitions: what exists under a name, of every noun."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.all_definitions import FIELDS, NOUNS, SETTING, SOURCES, WORDS, Defined
from admin.core.row_conditions import RowCondition, parse_conditions
from admin.core.settings.scopes import SCOPE_KEYS
from admin.messages.pages import key_of, token_of, wrong_token
from admin.messages.requests import SCOPE_KEY, Fields, OneOf, PageQuery
from admin.messages.selectors import FILTER_LENGTH
from admin.messages.shared import Answer, ProvenanceAnswer, SeenAnswer, one_of
from admin.services.all_definitions import DefinedPage


class AllDefinitionsQuery(PageQuery):
    noun = fields.String(
        validate=OneOf(NOUNS), metadata={"description": "Only those of this noun; settings are listed only so."}
    )
    project = fields.String(
        validate=SCOPE_KEY,
        metadata={"description": "Only this project, and what is registered or granted there."},
    )
    domain = fields.String(
        validate=SCOPE_KEY, metadata={"description": "Only this domain, and what is registered or granted there."}
    )
    filters = fields.String(
        validate=FILTER_LENGTH,
        metadata={
            "description": f"Only those of which this holds, as eq(author,ada)+gt(at,7d). Fields: {', '.join(FIELDS)}."
        },
    )


def conditions_of(query: Fields, now: datetime) -> list[RowCondition]:
    """What selects definitions."""
    return parse_conditions(query["filters"], FIELDS, WORDS, now) if "filters" in query else []


def nouns_of(query: Fields) -> tuple[str, ...]:
    """The nouns that a query asks for."""
    return (query["noun"],) if "noun" in query else tuple(noun for noun in NOUNS if noun != SETTING)


def definition_key(token: str | None) -> tuple[str, str] | None:
    """The noun and name in the token of a page; None for the first."""
    key = key_of(token, 2)
    if key is None:
        return None
    noun, name = key
    is_registered = noun in ("workflow", "launch-plan")
    is_scoped = noun != SETTING or 1 <= name.count("/") <= len(SCOPE_KEYS)
    if noun not in NOUNS or not is_scoped or (is_registered and name.count("/") != _SLASHES):
        raise wrong_token()
    return noun, name


#: Between the project, the domain and the name of what is registered.
_SLASHES = 2


class DefinedAnswer(Answer):
    """Something that is defined, and who defined it as it is."""

    noun: Annotated[str, one_of(*NOUNS)]
    name: Annotated[
        str,
        Meta(
            description="Of a workflow or launch plan with its project and domain: `p/d/fit`; of a setting its kind "
            "and scope: `task-resource-attribute/p/d`."
        ),
    ]
    source: Annotated[str, one_of(*SOURCES)]
    revision: Annotated[int | None, Meta(description="The last one that changed it.")] = None
    version: Annotated[
        str | None, Meta(description="Of a workflow or launch plan: the one that was registered last.")
    ] = None
    provenance: Annotated[
        ProvenanceAnswer | None,
        Meta(
            description="Who defined it as it is, when and why; absent for configuration, and where the revision is no "
            "longer kept."
        ),
    ] = None

    @classmethod
    def from_defined(cls, defined: Defined) -> DefinedAnswer:
        made_by = defined.provenance
        return cls.from_attributes(
            defined, provenance=None if made_by is None else ProvenanceAnswer.from_attributes(made_by)
        )


class AllDefinitionsAnswer(SeenAnswer):
    definitions: list[DefinedAnswer]
    token: Annotated[
        str | None,
        Meta(description="For the next page; absent on the last. With `filters` a page before the last may be empty."),
    ] = None

    @classmethod
    def from_page(cls, page: DefinedPage) -> AllDefinitionsAnswer:
        return cls(
            definitions=[DefinedAnswer.from_defined(defined) for defined in page.definitions],
            token=token_of(page.next_key),
            partial=page.is_partial or None,
        )
