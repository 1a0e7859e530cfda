"""Lists of executions: how they are selected and sorted, and their pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.executions.selectors import AS_OF_NOW, check_sort_field, parse_time, parse_value, value_text
from admin.core.problems import Invalid
from admin.messages.executions import ListedAnswer
from admin.messages.pages import key_of, parse_number, token_of, wrong_token
from admin.messages.requests import Fields, Flag, OneOf, PageQuery
from admin.messages.selectors import SelectorFields
from admin.messages.shared import SeenAnswer
from admin.messages.unknown_names import UnknownNames
from admin.store.execution_lists import NEWEST_FIRST, OLDEST_FIRST, Order, Place


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


def order_of(query: Fields, now: datetime) -> Order:
    """The order that a query names; Invalid for a field that no list is sorted by."""
    field = check_sort_field(query["sort_key"])
    asked_at = _asked_at(query.get("token")) or now if field in AS_OF_NOW else None
    return Order(field=field, descending=query["sort_direction"] == "DESCENDING", asked_at=asked_at)


def _asked_at(token: str | None) -> datetime | None:
    """When the first page of a list was asked for, which the tokens of its pages carry; None for the first."""
    key = key_of(token, 3, 4)
    if key is None or len(key) == 3:
        return None
    try:
        return parse_time(key[3])
    except ValueError:
        raise wrong_token("this list") from None


def place_token(place: Place | None, order: str, asked_at: datetime | None = None) -> str | None:
    """The token for the page after a place in a list of some order; None where there is no such page.

    `asked_at` is when the first page was asked for, where the order depends on that.
    """
    if place is None:
        return None
    value, row_id = place
    shown = value_text(order.partition(" ")[0], value)
    return token_of((order, shown, row_id, *([] if asked_at is None else [asked_at.isoformat()])))


def place_of(token: str | None, sort_by: str, order: str) -> Place | None:
    """The place in a token, None for the first page; Invalid for one that a list of another order gave."""
    key = key_of(token, 3, 4)
    if key is None:
        return None
    error = wrong_token("this list")
    if key[0] != order:
        raise error
    try:
        return parse_value(sort_by, key[1]), parse_number(key[2], error)
    except Invalid:
        raise error from None


def matching_token(place: Place | None) -> str | None:
    """The token for those of the executions that match, oldest first, which come after a place."""
    return place_token(place, OLDEST_FIRST.name)


def place_in_matching(token: str | None) -> Place | None:
    """The place in such a token; None where they begin with the first."""
    return place_of(token, OLDEST_FIRST.field, OLDEST_FIRST.name)


def round_token(place: Place | None, event: int | None) -> str | None:
    """The same for the next step of a round of new decisions, whose event goes on."""
    token = matching_token(place)
    return token if event is None else token_of((*(key_of(token, 3) or ()), event)) if token else None


def event_of_round(token: str | None) -> int | None:
    """The event in such a token; None where nothing had changed before."""
    key = key_of(token, 3, 4)
    return None if key is None or len(key) == 3 else parse_number(key[3], wrong_token("this list"))


def newest_token(place: Place | None) -> str | None:
    """The token for those that come after a place, newest first."""
    return place_token(place, NEWEST_FIRST.name)


def place_in_newest(token: str | None) -> Place | None:
    """The place in such a token."""
    return place_of(token, NEWEST_FIRST.field, NEWEST_FIRST.name)


class ExecutionsAnswer(SeenAnswer):
    executions: list[ListedAnswer]
    unknown_names: UnknownNames = None
    not_counted: Annotated[
        str | None, Meta(description="Of the last page: what was pruned, and might have been in the list.")
    ] = None
    token: str | None = None
