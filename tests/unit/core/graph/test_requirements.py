from __future__ import annotations

from typing import Any

import pytest

from admin.core.graph.job_requests import request_of
from admin.core.graph.requests import Unit
from admin.core.graph.requirements import Feature, Requirement, read_requirement
from admin.core.problems import Invalid, Problem


def is_met(value: Any, **conditions: Any) -> bool:
    problems: list[Problem] = []
    requirement = read_requirement({"name": "io", "field": "f", **conditions}, ("requires",), problems)
    assert requirement is not None, problems
    return requirement.holds([Feature("io", {"other": 1}), Feature("io", {"f": value})])


@pytest.mark.parametrize(
    ("value", "match", "expected"),
    [
        ("shm", "shm", True),
        ("shm", "SHM", False),
        ("shm", "sh", False),
        (1024, 1024, True),
        (1024, "1024", True),
        (1024, "1025", False),
        (1024, 1024.0, True),
        ("1024", 1024, True),
        ("v1", 1, False),
        (0.1, "0.1", True),
        (True, True, True),
        (True, "true", True),
        (True, "True", True),
        ("True", True, True),
        ("true", True, True),
        (True, 1, False),
        (False, "true", False),
        (False, "False", True),
        ("False", False, True),
        ("no", False, False),
        ("", "", True),
    ],
)
def test_equality(value: Any, match: Any, expected: bool) -> None:
    assert is_met(value, match=match) == expected


@pytest.mark.parametrize(
    ("value", "lowest", "highest", "expected"),
    [
        ("0.5.2", "0.5.1", "0.5.5", True),
        ("0.5.2", "0.7.1", "0.7.5", False),
        ("0.5.1", "0.5.1", "0.5.5", True),
        ("0.5.5", "0.5.1", "0.5.5", True),
        ("0.5.6", "0.5.1", "0.5.5", False),
        ("0.10", "0.9", None, True),
        ("v0.5.2", "0.5", "v1", True),
        ("0.5", "0.5.0", "0.5.0", True),
        ("0.5", 0.5, None, True),
        ("1.0.0-rc.1", "0.9", "1.1", True),
        ("1.0.0-rc.1", "1.0", "1.1", False),
        ("1.0.0-rc.1", "1.0.0-alpha", "1.0.0-rc.2", True),
        ("1.0.0-rc.10", "1.0.0-rc.9", None, True),
        ("1.0.0+build5", "1.0.0", "1.0.0", True),
        ("1.2.3.4", "1.2.3.3", "1.2.3.5", True),
        ("latest", "0.1", None, False),
        (4096, 1000, 5000, True),
        (4096, "1000", "5000", True),
        (4096, 4096, 4096, True),
        (4096, 4097, None, False),
        (4096, None, 4095, False),
        (-1, None, 0, True),
        (0.5, "0.4", "0.6", True),
        (4096, "1.2.3", "1.2.5", False),
        (11.8, "11.2.1", "12.0.0", True),
        ("4.1.0rc1", "4.0", "4.1", True),
        ("4.1.0rc1", "4.1", None, False),
        ("2.34-60.el9", "2.34", "2.34", True),
        ("2.34-60.el9", "2.34-59.el9", "2.34-60.el9", True),
        ("2.34-60.el9", "2.34-61", None, False),
        ("1.2.3+build5", "1.2.3", "1.2.3", True),
        ("11.8", "11.10", None, False),
        ("v2.0", "2", "2.0.0", True),
        (True, 0, 5, False),
    ],
)
def test_ranges_include_both_ends(value: Any, lowest: Any, highest: Any, expected: bool) -> None:
    bounds = {name: bound for name, bound in (("min", lowest), ("max", highest)) if bound is not None}
    assert is_met(value, **bounds) == expected


@pytest.mark.parametrize("name", ["cluster", "containment"])
def test_a_property_without_a_value_is_there(name: str) -> None:
    """An empty text, as Flux's scheduler writes it and as labels of Kubernetes have it."""

    def is_met_by(match: Any, value: Any, field: str = "properties.fast") -> bool:
        requirement = read_requirement({"name": name, "field": field, "match": match}, (), [])
        assert requirement is not None
        return requirement.is_met_by(Feature("containment", {field: value}))

    assert is_met_by(True, "")
    assert is_met_by("", "")
    for match, value in ((False, ""), ("true", ""), (1, ""), ("", True), ("", "true")):
        assert not is_met_by(match, value)
    assert not is_met_by(True, "", "model")


def test_true_is_not_one() -> None:
    one, true = Requirement("io", "f", match=1), Requirement("io", "f", match=True)
    assert one != true
    assert not one == true  # noqa: SIM201
    assert len({one, true, Requirement("io", "f", match=1.0), Requirement("io", "f", match=0)}) == 3
    assert Unit("core", (one,)) != Unit("core", (true,))


def test_equality_and_range_hold_for_the_same_vertex() -> None:
    requirement = Requirement("io", "f", match="2", lowest="1", highest="3")
    assert requirement.holds([Feature("io", {"f": "2"})])
    assert not requirement.holds([Feature("io", {"f": "1"}), Feature("io", {"f": "3"})])
    assert not requirement.holds([Feature("software", {"f": "2"})])


@pytest.mark.parametrize(
    ("entry", "field", "reason"),
    [
        (5, "job.requires.0", "5 is not a mapping"),
        ({"name": "io", "match": "shm"}, "job.requires.0.field", "is missing: a requirement has a name and a field."),
        ({"field": "type", "match": "shm"}, "job.requires.0.name", "is missing"),
        ({"name": "io", "field": "type"}, "job.requires.0", "asks for nothing"),
        (
            {"name": "cluster", "field": "name", "match": "n1"},
            "job.requires.0.field",
            "'name' only tells a vertex",
        ),
        ({"name": "cluster", "field": [], "match": "n1"}, "job.requires.0.field", "a list is not a name"),
        ({"name": "io", "field": 5, "match": "x"}, "job.requires.0.field", "5 is not a name"),
        ({"name": "io", "field": "f", "match": None}, "job.requires.0.match", "null is neither text nor a number"),
        ({"name": "io", "field": "f", "match": ["a"]}, "job.requires.0.match", "a list is neither text nor a number"),
        ({"name": "io", "field": "f", "min": True}, "job.requires.0.min", "true is neither text nor a number"),
        ({"name": "io", "field": "f", "min": "new"}, "job.requires.0.min", "'new' is neither a version nor a number"),
        ({"name": "io", "field": "f", "max": float("nan")}, "job.requires.0.max", "nan is not a finite number"),
        ({"name": "io", "field": "f", "min": "2", "max": "1"}, "job.requires.0.min", "'2' is above max, '1'"),
        ({"name": "io", "field": "f", "min": 2, "max": 1}, "job.requires.0.min", "2 is above max, 1"),
        ({"name": "io", "field": "f", "mtch": 5}, "job.requires.0.mtch", "unknown field 'mtch'. Did you mean 'match'"),
    ],
)
def test_a_requirement_that_is_not_understood_is_refused(entry: Any, field: str, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        request_of({"requires": [entry]})
    assert any(problem.field == field and reason in problem.reason for problem in caught.value.problems)


def test_the_main_graph_has_two_names() -> None:
    for name in ("containment", "cluster"):
        requirement = read_requirement({"name": name, "field": "f", "match": "x"}, (), [])
        assert requirement is not None
        assert requirement.subsystem == "containment"


@pytest.mark.parametrize("described", ["amd64", "x86_64"])
@pytest.mark.parametrize("wanted", ["amd64", "x86_64"])
def test_an_architecture_is_the_same_by_either_of_its_names(described: str, wanted: str) -> None:
    node = Feature("containment", {"arch": described})
    assert Requirement("containment", "arch", match=wanted).is_met_by(node)
    assert not Requirement("containment", "arch", match="arm64").is_met_by(node)
    assert Requirement("libraries", "arch", match=wanted).is_met_by(Feature("libraries", {"arch": described})) is (
        described == wanted
    )
