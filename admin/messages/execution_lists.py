"""Lists of executions: how they are selected and sorted, and their pages."""

from __future__ import annotations

from datetime import datetime

from marshmallow import fields

from admin.core.executions.selectors import check_sort_field, parse_value
from admin.core.problems import Invalid
from admin.messages.executions import ListedAnswer
from admin.messages.pages import key_of, parse_number, token_of, wrong_token
from admin.messages.requests import Fields, Flag, OneOf, PageQuery
from admin.messages.selectors import SelectorFields
from admin.messages.shared import Answer
from admin.messages.unknown_names import UnknownNames
from admin.store.execution_lists import Order, Place


class StateSelector(SelectorFields):
    state = fields.String(load_default="ACTIVE", validate=OneOf(["ACTIVE", "ARCHIVED", "ALL"]))


class ExecutionListQuery(StateSelector, PageQuery):
    with_origin = Flag(
        load_default=False, metadata={"description": "Also answer which rung decided where each one went."}
    )
    with_limit_scope = Flag(
        load_default=False,
        metadata={"description": "Has no effect: the scope whose limit ended each one is always answered."},
    )
    sort_key = fields.String(data_key="sort_by.key", load_default="created_at")
    sort_direction = fields.String(
        data_key="sort_by.direction",
        load_default="DESCENDING",
        validate=OneOf(["ASCENDING", "DESCENDING"]),
    )


def order_of(query: Fields) -> Order:
    """The order that a query names; Invalid for a field that no list is sorted by."""
    return Order(field=check_sort_field(query["sort_key"]), descending=query["sort_direction"] == "DESCENDING")


def place_token(place: Place | None, order: str) -> str | None:
    """The token for the page after a place in a list of some order; None where there is no such page."""
    if place is None:
        return None
    value, row_id = place
    return token_of((order, value.isoformat() if isinstance(value, datetime) else str(value), row_id))


def place_of(token: str | None, sort_by: str, order: str) -> Place | None:
    """The place in a token, None for the first page; Invalid for one that a list of another order gave."""
    key = key_of(token, 3)
    if key is None:
        return None
    error = wrong_token("this list")
    if key[0] != order:
        raise error
    try:
        return parse_value(sort_by, key[1]), parse_number(key[2], error)
    except Invalid:
        raise error from None


class ExecutionsAnswer(Answer):
    executions: list[ListedAnswer]
    unknown_names: UnknownNames = None
    token: str | None = None
