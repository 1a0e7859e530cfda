"""Choosing among the rows of a list: selectors, order, limit and page."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.cli.lists import Listing, choose, opening, request_size, selected_fields
from ctl.cli.session import Session
from ctl.client.errors import InvalidInput

ROWS: list[dict[str, Any]] = [
    {
        "name": "b",
        "state": "ACTIVE",
        "created_at": "2026-03-01T12:00:00.5Z",
        "cost": 10,
        "pools": ["x", "y"],
        "mood": "good",
    },
    {"name": "a", "state": "INACTIVE", "created_at": "2026-03-01T12:00:00Z", "cost": 9, "pools": ["y"]},
    {"name": "c", "state": "ACTIVE", "created_at": None, "is_new": True},
]
LISTING = Listing(
    fields={name: name for name in ("name", "state", "created_at", "cost", "is_new", "pools", "mood")},
    aliases={"project.name": "name"},
    prefixes=("workflow",),
    states=("INACTIVE", "ACTIVE"),
    words={"mood": ("good", "bad")},
)
NO_FLAGS: dict[str, Any] = {"selector": None, "sort_by": None, "is_ascending": False, "limit": None, "page": None}


def chosen(**flags: Any) -> str:
    return "".join(row["name"] for row in choose(Session(), iter(ROWS), NO_FLAGS | flags, LISTING))


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("name=a", "a"),
        ("workflow.name=a", "a"),
        ("project.name != a", "bc"),
        ("name contains b", "b"),
        ("name in (a;c)", "ac"),
        ("name not in (a;c)", "b"),
        ("state=active,name>b", "c"),
        ("state=1", "bc"),
        ("state=0", "a"),
        ("mood=GOOD", "b"),
        ("mood != good", "ac"),
        ("created_at>2026-03-01T12:00:00", "b"),
        ("created_at<=2026-03-01T13:00:00", "ba"),
        ("cost>9", "b"),
        ("cost!=10", "ac"),
        ("is_new=true", "c"),
        ("pools=x", "b"),
        ("pools=y", "ba"),
        ("pools!=x", "ac"),
        ("pools in (x;z)", "b"),
        ("pools not in (x;z)", "ac"),
        ("pools contains y", "ba"),
    ],
)
def test_a_selector_keeps_the_rows_that_match(selector: str, names: str) -> None:
    assert chosen(selector=selector) == names


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        ("state=activ", "there is no state 'activ': choose INACTIVE or ACTIVE. Did you mean ACTIVE?"),
        ("state in (ACTIVE;2)", "there is no state '2': choose INACTIVE or ACTIVE."),
        ("mood!=goood", "there is no mood 'goood': choose good or bad. Did you mean good?"),
        ("mood=1", "there is no mood '1': choose good or bad."),
    ],
)
def test_a_word_that_no_row_can_have_is_refused(selector: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{re.escape(error)}$"):
        chosen(selector=selector)


def test_the_names_of_a_scope_are_understood_unless_they_are_those_of_the_row_itself() -> None:
    fields = {name: name for name in ("name", "workflow", "workflow_version")}
    rows = [{"name": "nightly", "workflow": "train", "workflow_version": "v1"}, {"name": "train", "workflow": "eval"}]

    def names(selector: str, listing: Listing) -> list[str]:
        return [row["name"] for row in choose(Session(), rows, NO_FLAGS | {"selector": selector}, listing)]

    launch_plans = Listing(fields=fields, prefixes=("launch_plan",))
    assert names("workflow.name=train", launch_plans) == ["nightly"]
    assert names("launchPlan.name=train", launch_plans) == ["train"]
    assert names("workflow.version=v1", launch_plans) == ["nightly"]
    assert names("workflow.name=train", Listing(fields=fields, prefixes=("workflow",))) == ["train"]


def test_rows_are_sorted_largest_first_unless_the_smallest_is_asked_for() -> None:
    assert chosen() == "bac"
    assert chosen(sort_by="name") == "cba"
    assert chosen(sort_by="workflow.name", is_ascending=True) == "abc"
    assert chosen(sort_by="cost", is_ascending=True) == "abc"  # 9 before 10; nothing last
    assert chosen(is_ascending=True) == "abc"
    assert chosen(sort_by="createdAt") == "bac"


def test_a_limit_cuts_and_the_next_page_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(limit=2) == "ba"
    assert capsys.readouterr().err == "There are more: --filter.page 2 shows the next 2.\n"
    assert chosen(limit=2, page=2) == "c"
    assert chosen(page=2) == ""
    assert capsys.readouterr().err == ""


def test_a_span_of_a_time_ahead_needs_a_sign() -> None:
    listing = Listing(fields={"name": "name", "expires_at": "expires_at"}, ahead=("expires_at",))
    rows = [{"name": "soon", "expires_at": (datetime.now(UTC) + timedelta(minutes=5)).isoformat()}, {"name": "never"}]

    def names(selector: str) -> list[str]:
        return [row["name"] for row in choose(Session(), rows, NO_FLAGS | {"selector": selector}, listing)]

    assert names("expires_at<+10m") == ["soon"]
    assert names("expires_at<+1m") == names("expires_at<-1m") == []
    with pytest.raises(InvalidInput, match=r"write \+10m for in 10m, or -10m for 10m ago"):
        names("expires_at<10m")


def test_a_list_in_one_sentence() -> None:
    assert opening(1, "launch plan") == "1 launch plan."
    assert opening(3, "project", values=["ACTIVE", "ARCHIVED", "ACTIVE"]) == "3 projects: 2 ACTIVE, 1 ARCHIVED."
    assert opening(2, "event", where="of cluster a", has_more=True) == "The first 2 events of cluster a."
    assert opening(2, "launch plan", skipped=2, has_more=True) == "Launch plans 3 to 4."
    assert opening(1, "key", skipped=2) == "Key 3."


def test_a_list_with_a_limit_of_its_own_shows_no_more_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    listing = replace(LISTING, limit=2)
    assert [row["name"] for row in choose(Session(), iter(ROWS), NO_FLAGS, listing)] == ["b", "a"]
    assert capsys.readouterr().err == "There are more: --filter.page 2 shows the next 2.\n"
    assert [row["name"] for row in choose(Session(), iter(ROWS), NO_FLAGS | {"page": 2}, listing)] == ["c"]
    assert len(list(choose(Session(), iter(ROWS), NO_FLAGS | {"limit": 3}, listing))) == 3


@pytest.mark.parametrize(
    ("flags", "size"),
    [({}, 21), ({"limit": 5}, 6), ({"page": 3}, 61), ({"limit": 500}, 100), ({"sort_by": "name"}, 100)],
)
def test_no_more_rows_are_asked_for_than_are_read(flags: dict[str, Any], size: int) -> None:
    assert request_size(NO_FLAGS | flags, replace(LISTING, limit=20), 100) == size


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"selector": "nme=a"}, "there is no field 'nme'"),
        ({"selector": "name"}, "has no operator"),
        ({"selector": "cost>much"}, "cost is a number, 'much' is none."),
        ({"sort_by": "size"}, "--filter.sortBy: there is no field 'size'"),
    ],
)
def test_what_cannot_be_understood_is_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        chosen(**flags)
    assert message in refused.value.message


def test_amounts_compare_as_quantities_and_what_has_none_does_not_match() -> None:
    rows = [{"name": name, "free_memory": size} for name, size in (("a", 2.0**30), ("b", 4.0**20), ("c", None))]
    listing = Listing(fields={"name": "name", "free_memory": "free_memory"}, amounts=("free_memory",))

    def names(**flags: Any) -> str:
        return "".join(str(row["name"]) for row in choose(Session(), iter(rows), NO_FLAGS | flags, listing))

    assert (names(selector="free_memory>=1Gi"), names(selector="free_memory>1G,free_memory<1Ti")) == ("ab", "a")
    assert (names(selector="free_memory="), names(sort_by="free_memory")) == ("c", "bac")
    with pytest.raises(InvalidInput, match=re.escape("free_memory>lots: 'lots' is not a quantity such as 500m")):
        names(selector="free_memory>lots")


def test_values_of_several_types_are_sorted_by_their_type_first() -> None:
    costs: dict[str, Any] = {"t": "x", "l": ["y"], "n": 3, "m": 2.5, "o": None}
    rows: list[dict[str, Any]] = [{"name": name, "cost": cost} for name, cost in costs.items()]
    for is_ascending, names in ((True, "mnlto"), (False, "tlnmo")):
        flags = NO_FLAGS | {"sort_by": "cost", "is_ascending": is_ascending}
        assert "".join(row["name"] for row in choose(Session(), iter(rows), flags, LISTING)) == names


@pytest.mark.parametrize(
    ("selector", "fields"),
    [(None, set()), ("name=a state", {"name"}), ("project.name != cost,cost>1", {"name", "cost"})],
)
def test_the_fields_of_a_selector_are_those_of_its_terms(selector: str | None, fields: set[str]) -> None:
    assert selected_fields(NO_FLAGS | {"selector": selector}, LISTING) == fields
