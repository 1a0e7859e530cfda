"""Filters in Flyte's grammar: what they mean, and how wrong ones are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from admin.core.executions.selectors import (
    GROUPS,
    WORDS,
    check_group,
    check_sort_field,
    may_select_ended_before,
    parse_filters,
)
from admin.core.problems import Invalid

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def parsed(text: str) -> list[tuple[str, str, tuple[Any, ...]]]:
    return [(condition.function, condition.field, condition.values) for condition in parse_filters(text, NOW)]


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("eq(phase,QUEUED)", [("eq", "phase", ("QUEUED",))]),
        ("eq(execution.phase, QUEUED )", [("eq", "phase", ("QUEUED",))]),
        ("eq(launch_plan.name,x)+eq(workflow.name,y)", [("eq", "launch_plan", ("x",)), ("eq", "workflow", ("y",))]),
        ("eq(project.name,p)+eq(execution_name,n)", [("eq", "project", ("p",)), ("eq", "name", ("n",))]),
        ("value_in(cluster,a;b;)", [("value_in", "cluster", ("a", "b", ""))]),
        ("eq(phase,QUEUED)+ne(pool,gpu)", [("eq", "phase", ("QUEUED",)), ("ne", "pool", ("gpu",))]),
        ("eq(phase,QUEUED) ne(pool,gpu)", [("eq", "phase", ("QUEUED",)), ("ne", "pool", ("gpu",))]),
        ("contains(name,a+b)", [("contains", "name", ("a+b",))]),
        ("contains(origin_scope,duct)", [("contains", "origin_scope", ("duct",))]),
        ("eq(labels.team,ml)", [("eq", "labels.team", ("ml",))]),
        ("value_in(labels.example.com/tier-1,a;)", [("value_in", "labels.example.com/tier-1", ("a", ""))]),
        ("eq(created_by,anonymous)", [("eq", "created_by", ("anonymous",))]),
        ("value_in(cause,LIMIT;CANCELLED)", [("value_in", "cause", ("LIMIT", "CANCELLED"))]),
        ("gt(attempt,1)", [("gt", "attempt", (1,))]),
        ("gt(attempt_number,1)", [("gt", "attempt", (1,))]),
        ("gte(decision_revision,41)+ne(nodes,n1)", [("gte", "revision", (41,)), ("ne", "node", ("n1",))]),
        ("eq(abort_principal,ada)", [("eq", "abort_principal", ("ada",))]),
        ("gte(duration,1.5s)", [("gte", "duration", (1.5,))]),
        ("gt(duration,1h30m)+lt(duration,2w)", [("gt", "duration", (5400.0,)), ("lt", "duration", (1209600.0,))]),
        ("gt(created_at,7d)", [("gt", "created_at", (NOW - timedelta(days=7),))]),
        ("gt(created_at,-7d)", [("gt", "created_at", (NOW - timedelta(days=7),))]),
        ("lt(not_before,+5m)", [("lt", "not_before", (NOW + timedelta(minutes=5),))]),
        ("gt(not_before,-1h30m)", [("gt", "not_before", (NOW - timedelta(minutes=90),))]),
        ("gt(next_attempt,2026-03-02)", [("gt", "not_before", (datetime(2026, 3, 2, tzinfo=UTC),))]),
        ("lt(started_at,100y)", [("lt", "started_at", (NOW - timedelta(days=36500),))]),
        ("ne(created_by,anonymous (says x))", [("ne", "created_by", ("anonymous (says x)",))]),
        (
            "ne(created_by,anonymous (says x))+value_in(created_by,a (b (c));d) eq(pool,gpu)",
            [
                ("ne", "created_by", ("anonymous (says x)",)),
                ("value_in", "created_by", ("a (b (c))", "d")),
                ("eq", "pool", ("gpu",)),
            ],
        ),
        (
            r'value_in(labels.x,"a;b)";c;"d \"e\"")+eq(labels.y,"(")',
            [("value_in", "labels.x", ("a;b)", "c", 'd "e"')), ("eq", "labels.y", ("(",))],
        ),
        (
            "value_in(origin-scope,-/production;flytesnacks;p/d;p/d/w;domain production;request)",
            [
                (
                    "value_in",
                    "origin_scope",
                    (
                        "domain production",
                        "project flytesnacks",
                        "project-domain p/d",
                        "workflow p/d/w",
                        "domain production",
                        "request",
                    ),
                )
            ],
        ),
        ("eq(limit_scope,launch-plan p/d/w/l)", [("eq", "limit_scope", ("launch-plan p/d/w/l",))]),
        ("lt(created_at,2026-01-02)", [("lt", "created_at", (datetime(2026, 1, 2, tzinfo=UTC),))]),
    ],
)
def test_filters_are_read_as_flytes_users_write_them(text: str, conditions: list[Any]) -> None:
    assert parsed(text) == conditions


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is empty"),
        ("+", "form function(field,value)"),
        ("eq(phase,QUEUED)eq(pool,gpu)", "form function(field,value)"),
        ("eq(phase,QUEUED)+", "form function(field,value)"),
        ("eq(created_by,anonymous (says x)", "form function(field,value)"),
        ("gt(duration,nan)", "number"),
        ("gt(created_at,99999y)", "calendar"),
        ("phase=QUEUED", "form function(field,value)"),
        ("eq(phase)", "form function(field,value)"),
        ("eqq(phase,QUEUED)", "eq"),
        ("eq(phaze,QUEUED)", "phase"),
        ("eq(labels.,x)", "labels.KEY"),
        ("eq(labels.-a,x)", "labels.KEY"),
        ("eq(created_at,yesterday)", "time"),
        ("gt(duration,long)", "number"),
        ("contains(duration,1)", "duration is a number"),
        ("gt(attempt,1.5)", "whole number"),
        ("gt(time_limit,unlimited)", "number or 'none'"),
        ("gt(gpu,many)", "whole number"),
        ("gt(attempt,9999999999)", "whole number"),
        ("contains(attempt,1)", "attempt is a whole number"),
        ("eq(name,a\0b)", "character"),
        ("+".join(["eq(phase,QUEUED)"] * 51), "51 terms"),
    ],
)
def test_a_wrong_filter_is_refused_with_what_is_allowed(text: str, word: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_filters(text, NOW)
    [problem] = caught.value.problems
    assert problem.field == "filters"
    assert word in problem.reason


def test_a_list_is_sorted_by_flytes_names_too() -> None:
    assert check_sort_field("next_attempt") == "not_before"
    assert check_sort_field("execution_created_at") == check_sort_field("execution.created_at") == "created_at"
    with pytest.raises(Invalid):
        check_sort_field("execution.color")


def test_an_unknown_group_is_refused_with_the_closest_one() -> None:
    assert check_group("creator") == "creator"
    with pytest.raises(Invalid) as caught:
        check_group("clusters")
    [problem] = caught.value.problems
    assert (problem.field, problem.closest[0]) == ("by", "cluster")
    assert all(word in problem.reason for word in (*GROUPS, "labels.KEY"))


def test_an_unknown_cause_is_refused_with_the_closest_one() -> None:
    with pytest.raises(Invalid) as caught:
        parse_filters("eq(cause,LIMITS)", NOW)
    [problem] = caught.value.problems
    assert (problem.field, problem.closest) == ("cause", ("LIMIT",))


@pytest.mark.parametrize("field", WORDS)
def test_a_value_outside_a_fixed_set_is_refused_with_all_of_the_set(field: str) -> None:
    for text in (f"eq({field},oops)", f"ne({field},oops)", f"value_in({field},{WORDS[field][0]};oops)"):
        with pytest.raises(Invalid) as caught:
            parse_filters(text, NOW)
        [problem] = caught.value.problems
        assert problem.field == field
        assert all(word in problem.reason for word in WORDS[field])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ne(cluster,a)", True),
        ("gte(created_at,2026-02-01)", True),
        ("gte(created_at,2026-03-01)", False),
        ("gt(finished_at,2026-03-02)", False),
        ("lt(created_at,2026-03-02)", True),
        ("gte(updated_at,2026-03-02)", True),
        ("value_in(phase,QUEUED;FAILED)", True),
        ("value_in(phase,QUEUED;RUNNING)", False),
        ("ne(phase,QUEUED)", True),
        ("eq(phase,SUCCEEDED)+gte(started_at,2026-03-01)", False),
    ],
)
def test_what_cannot_have_ended_before_a_time_is_known(text: str, expected: bool) -> None:
    time = datetime(2026, 3, 1, tzinfo=UTC)
    assert may_select_ended_before(parse_filters(text, NOW), time) is expected


def test_a_span_of_a_time_ahead_needs_a_sign() -> None:
    remedy = r"write \+5m for in 5m \(in a URL %2B5m\), or -5m for 5m ago\."
    with pytest.raises(Invalid, match=rf"'5m' may be ahead or past: {remedy}"):
        parse_filters("lt(not_before,5m)", NOW)
    for field in ("created_at", "not_before"):
        with pytest.raises(Invalid, match="has a blank before 5m: write %2B5m in a URL for in 5m, or -5m for ago"):
            parse_filters(f"lt({field}, 5m)", NOW)
    with pytest.raises(Invalid, match="'abc' is not a time, as not_before must be"):
        parse_filters("lt(not_before,abc)", NOW)
    with pytest.raises(Invalid, match="is longer than the calendar"):
        parse_filters("lt(not_before,+9999999d)", NOW)
