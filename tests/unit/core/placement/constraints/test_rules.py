"""Rules: what is refused when they are stored, with the number of the rule, and what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import read_definition
from admin.core.json_text import JsonObject, json_string
from admin.core.placement.constraints.expressions import FUNCTIONS
from admin.core.placement.constraints.facts import CLUSTER_FACTS, CONSTANTS, JOB_FACTS
from admin.core.placement.constraints.rules import MOST_CALCULATED, MOST_RULES, prepared_rules, unknown_properties
from admin.core.problems import Invalid, Problem

PRICE = [
    {"filter": "nodes_free > 0"},
    {"calculate": {"price": "cost_per_node_hour * job.nodes"}},
    {"sort": "price"},
    {"pick": "first"},
]


def problems(rules: Any, **more: Any) -> list[Problem]:
    document = {"members": [{"id": "a"}], "strategy": "constraint", "rules": rules, **more}
    try:
        read_definition(FleetKind.POOL, "p", document)
    except Invalid as invalid:
        return list(invalid.problems)
    return []


def test_good_rules_are_kept_as_they_were_written() -> None:
    document = {"members": [{"id": "a", "weight": 1}], "strategy": "constraint", "rules": PRICE}
    assert read_definition(FleetKind.POOL, "p", document) == document
    rules = prepared_rules(json_string(PRICE))
    assert rules.names == ("nodes_free", "cost_per_node_hour", "job.nodes")
    assert (rules.job_names, rules.pick, rules.looks_at_load) == (("job.nodes",), "first", True)
    assert prepared_rules(json_string(PRICE)) is rules


@pytest.mark.parametrize(
    ("rule", "looks_at_load"), [("fits_now", True), ("cpu_free > 1", True), ("cpu > 1", False), ("waiting < 3", True)]
)
def test_only_rules_that_ask_for_load_look_at_it(rule: str, looks_at_load: bool) -> None:
    assert prepared_rules(json_string([{"filter": rule}])).looks_at_load == looks_at_load


@pytest.mark.parametrize(
    ("rules", "field", "reason"),
    [
        ([{"filter": "nodes_free >"}], "rules.0.filter", "rule 1: 'nodes_free >' is not an expression"),
        ([*PRICE[:3], {"pick": "last"}], "rules.3.pick", "'last' is not one of first, weighted, random."),
        ([PRICE[0], {"filter": "true", "sort": "cost"}], "rules.1", "rule 2: give one of filter, calculate, sort"),
        ([{"descending": True}], "rules.0", "rule 1: give one of filter, calculate, sort and pick."),
        ([{"filter": "true", "descending": True}], "rules.0.descending", "rule 1: is for a sort alone: leave it out."),
        ([{"pick": "first"}, {"sort": "cost"}], "rules.0.pick", "rule 1: only the last rule may pick"),
        ([{"sort": "cost", "fliter": "true"}], "rules.0.fliter", "Did you mean 'filter'?"),
        ([{"filter": "job.node > 1"}], "rules.0.filter", "rule 1: unknown name 'job.node'. Did you mean 'job.nodes'"),
        ([{"filter": "job.labels > 1"}], "rules.0.filter", "unknown name 'job.labels'"),
        ([{"filter": "nodes_free"}], "rules.0.filter", "rule 1: gives a number, not true or false."),
        ([{"filter": "name > 3"}], "rules.0.filter", "rule 1: text is compared with a number."),
        ([{"filter": "zone * 2"}], "rules.0.filter", "rule 1: gives a number, not true or false."),
        ([{"filter": "1 / 0 > 1"}], "rules.0.filter", "rule 1: division by zero."),
        ([{"filter": "[1, 2] == cost"}], "rules.0.filter", "rule 1: a list stands on the right of `in` alone."),
        ([{"filter": "name in ('a', ['b'])"}], "rules.0.filter", "rule 1: a list stands on the right of `in` alone."),
        ([{"filter": "cpu_free >= 4 and 1/0 > 1"}], "rules.0.filter", "rule 1: division by zero."),
        ([{"filter": "nodes_free > 0 or 1 % 0 > 1"}], "rules.0.filter", "rule 1: division by zero."),
        ([{"sort": "cost if cpu > 0 else cost / 0"}], "rules.0.sort", "rule 1: division by zero."),
        ([{"sort": "default(cost, max(1, 1 // (3 - 3)))"}], "rules.0.sort", "rule 1: division by zero."),
        ([{"filter": "zone == 'eu' and price > 1 / 0"}], "rules.0.filter", "rule 1: division by zero."),
        ([{"sort": "cost / (1 - 1)"}], "rules.0.sort", "rule 1: division by zero."),
        ([{"sort": "cost // min(0, 1)"}], "rules.0.sort", "rule 1: division by zero."),
        ([{"sort": "cpu % 0"}], "rules.0.sort", "rule 1: division by zero."),
        ([{"calculate": {"x": "1 // (2 - 2)"}}], "rules.0.calculate.x", "rule 1: division by zero."),
        ([{"filter": "1 << 4 > 1"}], "rules.0.filter", "rule 1: `<<` cannot be used."),
        ([{"sort": "fits_now + 1"}], "rules.0.sort", "rule 1: true or false is used as a number."),
        ([{"calculate": {"x": "nodes"}}, {"filter": "x"}], "rules.1.filter", "rule 2: gives a number"),
        ([{"calculate": {"true": "1"}}], "rules.0.calculate.true", "rule 1: 'true' has a meaning already"),
        ([{"calculate": {"nodes": "1"}}], "rules.0.calculate.nodes", "rule 1: 'nodes' has a meaning already"),
        ([{"calculate": {"x": "1"}}, {"calculate": {"x": "2"}}], "rules.1.calculate.x", "'x' has a meaning already"),
        ([{"calculate": {"X y": "1"}}], "rules.0.calculate", "has a name that"),
        ([{"calculate": {}}], "rules.0.calculate", "rule 1: is empty: give names and expressions."),
        ([{"filter": "x" * 501}], "rules.0.filter", "500"),
        ([{"sort": "cost"}] * (MOST_RULES + 1), "rules", f"has {MOST_RULES + 1} entries; the most is {MOST_RULES}"),
        ([{"calculate": {f"x{n}": "1" for n in range(MOST_CALCULATED + 1)}}], "rules.0.calculate", "the most is"),
        ([], "rules", "has 0 entries"),
        ("filter: true", "rules", "is not a list"),
        (None, "rules", "is missing: the strategy constraint goes by rules."),
    ],
)
def test_bad_rules_are_refused_with_their_number_and_the_reason(rules: Any, field: str, reason: str) -> None:
    wrong = problems(rules)
    assert [problem.field for problem in wrong] == [field]
    assert reason in wrong[0].reason


def test_rules_are_for_their_strategy() -> None:
    [problem] = problems(PRICE, strategy="cheapest")
    assert (problem.field, problem.reason) == (
        "rules",
        "is for the strategy constraint: say `strategy: constraint` too.",
    )


def test_every_problem_is_told_at_once() -> None:
    wrong = problems([{"filter": "1 +"}, {"sort": "2 ** 3"}, {"calculate": {"a": "b.c", "d": "eval(1)"}}])
    assert [problem.field for problem in wrong] == [
        "rules.0.filter",
        "rules.1.sort",
        "rules.2.calculate.a",
        "rules.2.calculate.d",
    ]


@pytest.mark.parametrize(
    "rules",
    [
        [{"filter": "zone == 'eu' and price * 2 < 3"}],  # properties of two types
        [{"filter": "cpu_free >= 4 and 1 / (nodes * 0) > 1"}],  # only what stands for itself is known
        [{"filter": "cpu / (nodes - 1) > 2"}],  # a division by zero of the samples alone
        [{"sort": "name", "descending": True}],
        [{"calculate": {"share": "cpu_free / cpu"}}, {"filter": "share > 0.5"}, {"sort": "share"}],
        [{"filter": "properties.zone == 'eu'"}, {"filter": "job.labels.team != 'a'"}],
        [{"filter": "memory_free > 64 * Gi"}],
    ],
)
def test_what_may_be_right_is_not_refused(rules: list[JsonObject]) -> None:
    assert problems(rules) == []


def test_a_name_that_no_cluster_has_is_refused_with_the_closest() -> None:
    rules = prepared_rules(json_string([*PRICE[:2], {"sort": "prise"}]))
    [first, second] = unknown_properties(rules, {"cost_per_nodehour"}, ("rules",))
    assert first.field == "rules.1.calculate.price"
    assert first.reason.startswith("rule 2: unknown name 'cost_per_node_hour'. Did you mean 'cost_per_nodehour'")
    assert "Known" not in first.reason
    assert first.reason.endswith("or write `properties.cost_per_node_hour` where one will have it.")
    assert (second.field, second.closest[0]) == ("rules.2.sort", "price")
    assert list(unknown_properties(rules, {"cost_per_node_hour", "prise"}, ())) == []
    explicit = prepared_rules(json_string([{"sort": "properties.cost_per_node_hour"}]))
    assert list(unknown_properties(explicit, (), ())) == []


def test_the_documentation_has_every_name_with_its_type_and_meaning() -> None:
    page = (Path(__file__).parents[5] / "docs" / "placement.md").read_text()
    section = page.split("### What rules may name")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([A-Za-z_.]+)` \| (number|text|boolean) \| (.+) \|$", section, re.MULTILINE)
    of_clusters = [(name, fact.type, fact.meaning) for name, fact in CLUSTER_FACTS.items()]
    assert rows == of_clusters + [(name, fact.type, fact.meaning) for name, fact in JOB_FACTS.items()]
    functions = re.findall(r"^\| `([a-z]+)\(.*\)` \| (.+) \|$", section, re.MULTILINE)
    assert functions == [(name, function.meaning) for name, function in FUNCTIONS.items()]
    assert {name for name in CONSTANTS if f"`{name}`" not in section} == set()
