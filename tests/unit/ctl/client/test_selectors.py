from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ctl.client.errors import InvalidInput
from ctl.client.facts import SORT_FIELDS
from ctl.client.selectors import filters, find_field, parse_selector

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def sent(text: str) -> str:
    return filters(parse_selector(text, "--selector", now=NOW))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("phase=QUEUED", "eq(phase,QUEUED)"),
        ("phase = queued", "eq(phase,QUEUED)"),
        ("phase==timed-out", "eq(phase,TIMED_OUT)"),
        ("phase!=RUNNING", "ne(phase,RUNNING)"),
        ("duration>90,duration>=5m", "gt(duration,90)+gte(duration,300)"),
        ("execution.duration<200,name contains flyte", "lt(duration,200)+contains(name,flyte)"),
        ("created_at<=2026-03-01", "lte(created_at,2026-03-01T00:00:00Z)"),
        ("createdAt>24h", "gt(created_at,2026-03-01T12:00:00Z)"),
        ("created_at>2026-03-01T10:00:00+02:00", "gt(created_at,2026-03-01T08:00:00Z)"),
        ("finished_at>24h", "gt(finished_at,2026-03-01T12:00:00Z)"),
        ("finished_at>-24h", "gt(finished_at,2026-03-01T12:00:00Z)"),
        ("not_before<+5m,next_attempt>-1h", "lt(not_before,2026-03-02T12:05:00Z)+gt(not_before,2026-03-02T11:00:00Z)"),
        ("not_before<2026-03-03", "lt(not_before,2026-03-03T00:00:00Z)"),
        ("labels.team=ml,labels.a.b/c-1 in (x;y)", "eq(labels.team,ml)+value_in(labels.a.b/c-1,x;y)"),
        ("createdBy=anonymous,principal!=ann", "eq(created_by,anonymous)+ne(principal,ann)"),
        ("cause=cluster-lost,abortPrincipal=ada", "eq(cause,CLUSTER_LOST)+eq(abort_principal,ada)"),
        ("attempt>1", "gt(attempt,1)"),
        ("mode=relaunch", "eq(mode,RELAUNCH)"),
        ("cluster in (a;b)", "value_in(cluster,a;b)"),
        ("cluster in(a, b)", "value_in(cluster,a;b)"),
        ("cluster  not  in  ( a ; b )", "value_not_in(cluster,a;b)"),
        ("phase in (queued;Running),pool=gpu", "value_in(phase,QUEUED;RUNNING)+eq(pool,gpu)"),
        ("state=1", "eq(state,ARCHIVED)"),
        ("state=EXECUTION_ACTIVE", "eq(state,ACTIVE)"),
        ("reason=clusters-full", "eq(reason,CLUSTERS_FULL)"),
        ("workflow.name=train,launch_plan.name=nightly", "eq(workflow,train)+eq(launch_plan,nightly)"),
        ("launchplan.version=v1", "eq(version,v1)"),
        ("execution_name=x,project.name=p", "eq(name,x)+eq(project,p)"),
        ("task.name=t,execution.execution_created_at>24h", "eq(workflow,t)+gt(created_at,2026-03-01T12:00:00Z)"),
        (r"workflow=a\,b", "eq(workflow,a,b)"),
        (r"workflow=a\=b\\c", "eq(workflow,a=b\\c)"),
        ("name=in", "eq(name,in)"),
        ("created_by!=anonymous (says ann)", "ne(created_by,anonymous (says ann))"),
        (r"labels.x=\(", 'eq(labels.x,"(")'),
        ("node=n1,decision-revision>=41", "eq(node,n1)+gte(revision,41)"),
        ("origin-scope=-/prod,limitScope in (p;job)", "eq(origin_scope,-/prod)+value_in(limit_scope,p;job)"),
        ("duration>2d,created_at>1y", "gt(duration,172800)+gt(created_at,2025-03-02T12:00:00Z)"),
        ("name contains not in", "contains(name,not in)"),
    ],
)
def test_a_selector_becomes_filters_of_the_api(typed: str, expected: str) -> None:
    assert sent(typed) == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("cause=limits", "there is no cause 'limits': choose EXIT_CODE, "),
        ("attempt>1.5", "'1.5' is no whole number"),
        ("not_before<soon", "must be a span such as +30m or -7d, or a time"),
        ("not_before<5m", "5m may be ahead or past: write +5m for in 5m, or -5m for 5m ago."),
        ("created_at<+5x", "must be a span such as 30m"),
        ("not_before<+99999999d", "is too far ahead."),
        ("attempts>1", "Did you mean attempt?"),
        ("phase", "'phase' has no operator: write FIELD=VALUE"),
        ("cluster=a,phase", "'phase' has no operator"),
        ("cluster=a,", "nothing between two separators"),
        ("cluster=a,,pool=b", "nothing between two separators"),
        ("phse=QUEUED", "there is no field 'phse'"),
        ("phse=QUEUED", "Did you mean phase?"),
        ("node.name=x", "there is no field 'node.name'"),
        ("phase=QUEUD", "there is no phase 'QUEUD'"),
        ("state=gone", "there is no state 'gone': choose ACTIVE or ARCHIVED"),
        ("cluster=", "there is no value"),
        ("cluster contains ", "there is no value"),
        ("cluster in a", "write the values in brackets, in (A;B)"),
        ("cluster in", "write the values in brackets"),
        ("cluster in ()", "there is no value in the brackets"),
        ("cluster in (a;)", "nothing between two separators"),
        ("cluster in (a;b", "opened and never closed"),
        (r"cluster in (a\;b)", "cannot hold a semicolon"),
        ("cluster=a)", "closed that was never opened"),
        ("cluster=a pool=b", "= in a value is written \\="),
        (r"cluster=a\b", r"there is no escape \b"),
        ("cluster=a\\", "\\ in a value is written \\\\"),
        ("created_at>yesterday", "must be a span such as"),
        ("duration>long", "must be a duration such as"),
        ("insecure (a)", "has no operator"),
        (",".join(["cluster=a"] * 1000), "has 1000 terms; the most is 50"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_name(typed: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_selector(typed, "--selector", now=NOW)
    assert refused.value.message.startswith("--selector")
    assert message in refused.value.message


@pytest.mark.parametrize(("word", "field"), [("createdAt", "created_at"), ("execution.phase", "phase")])
def test_lists_are_sorted_by_some_of_the_fields(word: str, field: str) -> None:
    assert find_field(word, SORT_FIELDS, "--filter.sortBy") == field


def test_other_fields_to_sort_by_are_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no field 'cause': choose created_at"):
        find_field("cause", SORT_FIELDS, "--filter.sortBy")


@pytest.mark.parametrize(("typed", "is_empty"), [("pools=", True), ("pools==", True), ("pools!=", False)])
def test_a_term_without_a_value_selects_rows_of_a_list_that_have_nothing_there(typed: str, is_empty: bool) -> None:
    [term] = parse_selector(typed, "--selector", now=NOW, types={"pools": "text"}, aliases={}, readers={})
    assert [term.matches(value) for value in ([], None, "", ["gpu"], "gpu", 3)] == [is_empty] * 3 + [not is_empty] * 3
    with pytest.raises(InvalidInput, match="there is no value"):
        parse_selector("pools>", "--selector", now=NOW, types={"pools": "text"}, aliases={}, readers={})


def test_a_selector_longer_than_the_api_takes_is_refused() -> None:
    terms = parse_selector(f"name in ({';'.join(['a' * 60] * 80)})", "--selector", now=NOW)
    with pytest.raises(InvalidInput, match="--selector is 4894 characters long; the most is 4000"):
        filters(terms, "--selector")
