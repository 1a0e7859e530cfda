"""Placement by the graphs of clusters, over the API; on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from ctl.client.facts import SCHEMAS
from ctl.files.cluster_states import read_state
from tests.support.descriptions import DATA, describe, pooled
from tests.support.placing import (
    API,
    asked,
    create,
    created,
    execution,
    explanation,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    report,
)

SLOW_ON = ("postgresql",)


@pytest.fixture
def red(api: FlaskClient) -> FlaskClient:
    """Three nodes of twelve cores in a pool, with storage and software."""
    describe(api, "red")
    put_pool(api, "red", ["red"])
    limits = {"limits": {"cpu": "64", "memory": "1Ti", "gpu": "64"}}
    put_attribute(api, "project-domain", "task_resource_attributes", limits)
    return api


def job(cpu: str | None = None, requires: Any = None, **resources: Any) -> dict[str, Any]:
    document = {"command": ["true"], "resources": {**resources, **({"requests": {"cpu": cpu}} if cpu else {})}}
    return {"job": {**document, **({"requires": requires} if requires else {})}}


def jobspec(name: str) -> dict[str, Any]:
    return {"jobspec": yaml.safe_load((DATA / "jobspecs" / name).read_text())}


def flux(resource: dict[str, Any]) -> dict[str, Any]:
    task = {"command": ["true"], "slot": "task", "count": {"per_slot": 1}}
    return {"jobspec": {"version": 1, "resources": [resource], "tasks": [task], "attributes": {"system": {}}}}


def slot(count: int, cores: int) -> dict[str, Any]:
    return {"type": "slot", "count": count, "label": "task", "with": [{"type": "core", "count": cores}]}


def group(**resource: Any) -> dict[str, Any]:
    return {"jobspec": {"version": 1, "resources": {"g": resource}, "tasks": [{"command": ["true"]}]}}


def cores(count: int) -> list[dict[str, Any]]:
    return [{"type": "core", "count": count}]


FITTING = {
    "36 single-core slots": flux(slot(36, 1)),
    "36 single-core tasks": job("1", tasks=36),
    "36 next-generation slots": group(type="slot", replicas=36, **{"with": cores(1)}),
    "three node slots of 12": group(type="node", replicas=3, **{"with": cores(12)}),
    "three nodes of 12 by Flux": flux({"type": "node", "count": 3, "with": [slot(1, 12)]}),
    "2 nodes × 24 tasks": job("1", nodes=2, tasks=24),
    "a job that asks for nothing": job(),
    "documented storage": jobspec("next-io.yaml"),
    "documented version": jobspec("next-valid-range.yaml"),
    "documented cores": jobspec("next-constraint.yaml"),
    "storage by number": job("2", [{"name": "io", "field": "capacity", "min": 1073741824}]),
}
UNFIT = {
    "37 single-core slots": (flux(slot(37, 1)), "cores: needs 37, the cluster has 36"),
    "37 single-core tasks": (job("1", tasks=37), "cores: needs 37, the cluster has 36"),
    "a slot of 13 cores": (flux(slot(1, 13)), "cores: needs 13 on one node, largest node has 12"),
    "13 cores": (job("13"), "cores: needs 13 on one node, largest node has 12"),
    "four node slots of 12": (
        group(type="node", replicas=4, **{"with": cores(12)}),
        "nodes: needs 4, the cluster has 3",
    ),
    "1 × 13": (job("1", nodes=1, tasks=13), "cores: needs 13 on one node, largest node has 12"),
    "a gpu": ({"job": {"command": ["true"], "resources": {"requests": {"gpu": "1"}}}}, "gpus: needs 1"),
    "another version": (jobspec("next-invalid-range.yaml"), "spack version from 0.7.1 to 0.7.5"),
    "a field that no vertex has": (
        job("1", [{"name": "io", "field": "colour", "match": "red"}]),
        "no vertex has the field 'colour'",
    ),
    "a type that no vertex has": (
        group(type="node", **{"with": [*cores(1), {"type": "fpga", "count": 1}]}),
        "fpgas: needs 1 on one node, largest node has none",
    ),
    "a requirement on a type that no vertex has": (
        group(type="fpga", requires=[{"name": "io", "field": "type", "match": "shm"}]),
        "fpgas: needs 1, the cluster has none",
    ),
    "a subsystem that there is not": (
        job("1", [{"name": "network", "field": "type", "match": "ib"}]),
        "there is no subsystem 'network' (there are io, spack)",
    ),
}


@pytest.mark.parametrize("case", FITTING)
def test_a_job_that_fits_the_machine_is_created(red: FlaskClient, case: str) -> None:
    placed = ok(red.post(f"{API}/placements", json=asked(**FITTING[case], **pool("red"))))
    assert placed["cluster"] == "red"
    assert created(red, "x", **FITTING[case], **pool("red"))["cluster"] == "red"


@pytest.mark.parametrize("case", UNFIT)
def test_a_job_that_never_fits_is_refused_with_what_is_missing(red: FlaskClient, case: str) -> None:
    spec, missing = UNFIT[case]
    answer = refused(create(red, "x", **spec, **pool("red")), 400, "no_cluster_large_enough")
    assert "'red' has no place for it: " in answer["message"]
    assert missing in answer["message"]
    tried = red.post(f"{API}/placements", json=asked(**spec, **pool("red")))
    assert answer["message"] in tried.get_data(as_text=True).replace("\\u2192", "→")


def test_a_requirement_that_is_not_understood_is_refused_by_name(red: FlaskClient) -> None:
    wrong = job("1", [{"name": "io", "field": "type", "like": "shm"}])
    answer = refused(create(red, "x", **wrong, **pool("red")), 400, "invalid_request")
    assert any(detail["field"].startswith("spec.job.requires.0") for detail in answer["details"])
    answer = refused(
        create(red, "x", **job("1", [{"name": "containment", "field": "name", "match": "n1"}]), **pool("red")),
        400,
        "invalid_request",
        "spec.job.requires.0.field",
    )
    assert "'name' only tells a vertex from others" in str(answer["details"])
    spec = jobspec("next-io.yaml")
    spec["jobspec"]["resources"]["ior"]["requires"][0]["min"] = "soon"
    refused(
        create(red, "x", **spec, **pool("red")), 400, "invalid_request", "spec.jobspec.resources.ior.requires.0.min"
    )


def test_a_cluster_without_a_description_goes_by_the_sum_of_its_capacity(red: FlaskClient) -> None:
    put_pool(red, "both", ["red", "flat"])
    ok(red.put(f"{API}/clusters/flat", json={"cluster": {"capacity": {"cpu": "36", "nodes": 3}}}))
    report(red, "flat", capacity={"cpu": "36", "nodes": 3})
    report(red, "red", engine="slurm")
    assert created(red, "x", **job("13"), **pool("both"))["cluster"] == "flat"
    candidates = {c["cluster"]: c for c in explanation(red, "x")["candidates"]}
    failed = [verdict for verdict in candidates["red"]["verdicts"] if not verdict["passed"]]
    assert [verdict["filter"] for verdict in failed] == ["fits"]
    assert "largest node has 12" in candidates["red"]["why_not"]


def test_a_description_says_more_than_a_capacity_that_was_reported(red: FlaskClient) -> None:
    report(red, "red", capacity={"cpu": "8", "nodes": 1})
    assert created(red, "x", **job("1", nodes=3, tasks=36), **pool("red"))["cluster"] == "red"


def test_what_waits_is_decided_again_by_a_new_description(red: FlaskClient, context: Context) -> None:
    describe(red, "blue", pooled(1, 4))
    put_pool(red, "colours", {"red": 0.001, "blue": 1000})
    assert created(red, "x", **job("3"), **pool("colours"))["cluster"] == "blue"
    describe(red, "blue", pooled(4, 2))
    decide_waiting(context)
    assert execution(red, "x")["cluster"] == "red"
    describe(red, "red", pooled(36, 1))
    decide_waiting(context)
    waiting = execution(red, "x")
    assert (waiting.get("cluster"), waiting["closure"]["reason"]["code"]) == (None, "CLUSTERS_DO_NOT_FIT")


#: What becomes of each jobspec on the example cluster.
JOBSPECS = {
    "flux-v1.json": True,
    "next-constraint.yaml": True,
    "next-invalid-range.yaml": False,
    "next-io.yaml": True,
    "next-valid-range.yaml": True,
}
#: As its documentation calculates the price of a job; the state of the example cluster has the names.
BY_PRICE: dict[str, Any] = {
    "strategy": "constraint",
    "rules": [
        {"filter": "nodes_free > 0"},
        {
            "calculate": {
                "price": "cost_per_node_hour * memory_per_node * default(job.parameters.seconds_per_gb, 0.4) / 3600"
            }
        },
        {"sort": "price"},
        {"pick": "random"},
    ],
}


def test_every_example_is_tried() -> None:
    assert {path.name for path in (DATA / "jobspecs").iterdir()} == JOBSPECS.keys()
    graphs = {"cluster-nodes.json", "cluster-io-subsystem.json", "spack-subsystem.json", "cluster-state.json"}
    assert {path.name for path in (DATA / "graphs").iterdir()} == graphs


def report_example_state(api: FlaskClient) -> None:
    _source, state, _positions = read_state(str(DATA / "graphs" / "cluster-state.json"), SCHEMAS["cluster_state"])
    report(api, "red", **state)


@pytest.mark.parametrize("name", JOBSPECS)
def test_examples_match_as_documented_every_time(red: FlaskClient, name: str) -> None:
    """A thousand times over HTTP in tests/robustness."""
    report_example_state(red)
    for more in ({}, BY_PRICE):
        body = asked("x", **jobspec(name), **pool("red"), **more)
        answers = [red.post(f"{API}/placements", json=body) for _ in range(20)]
        outcome = (200, None) if JOBSPECS[name] else (400, "no_cluster_large_enough")
        assert {(answer.status_code, answer.get_json().get("error")) for answer in answers} == {outcome}


def nested(*levels: tuple[str, int], **innermost: Any) -> dict[str, Any]:
    """A next-generation group of levels within each other."""
    resource: dict[str, Any] = {}
    for number, (type_, count) in enumerate(reversed(levels)):
        inner = {"with": [resource]} if number else innermost
        resource = {"type": type_, "count": count, **inner}
    return group(**resource)


LAYERED = {
    "a rack of three nodes": (nested(("rack", 1), ("node", 3), ("core", 12)), True),
    "a task in a rack": (nested(("rack", 1), ("core", 12)), True),
    "a task in a rack that no node can hold": (nested(("rack", 1), ("core", 13)), False),
    "two racks": (nested(("rack", 2), ("node", 1), ("core", 1)), False),
    "twelve cores of a socket": (nested(("node", 1), ("socket", 1), ("core", 12)), True),
    "two sockets of a node": (nested(("node", 1), ("socket", 2), ("core", 6)), False),
    "cores that must have what only nodes have": (
        nested(("node", 1), ("core", 1), requires=[{"name": "io", "field": "type", "match": "shm"}]),
        False,
    ),
}


def test_types_that_only_a_graph_knows_are_asked_of_it(api: FlaskClient) -> None:
    """Levels and amounts of any name; a cluster without a description has none of them for certain."""
    contains = [
        ("root", "ch"),
        ("ch", "bl"),
        ("bl", "n"),
        ("n", "u0"),
        ("n", "u1"),
        ("n", "f"),
        ("u0", "c0"),
        ("u1", "c1"),
    ]
    kinds = {"root": "cluster", "ch": "chassis", "bl": "blade", "n": "node", "u0": "numanode", "u1": "numanode"}
    vertices: dict[str, Any] = {id_: {"metadata": {"type": type_}} for id_, type_ in kinds.items()}
    vertices |= {
        id_: {"metadata": {"type": type_, "size": size}}
        for id_, type_, size in (("c0", "core", 4), ("c1", "core", 4), ("f", "fpga", 2))
    }
    edges = [{"source": source, "target": target, "relation": "contains"} for source, target in contains]
    describe(api, "deep", {"graph": {"nodes": vertices, "edges": edges}})
    put_cluster(api, "plain")
    report(api, "plain", capacity={"cpu": "64"}, free={"cpu": "64"})
    put_pool(api, "both", ["plain", "deep"])
    put_attribute(api, "project-domain", "task_resource_attributes", {"limits": {"cpu": "64"}})

    def cores_and(type_: str, count: int) -> dict[str, Any]:
        inner = [{"type": "core", "count": 1}, {"type": type_, "count": count}]
        return group(type="node", **{"with": inner})

    deep = nested(("chassis", 1), ("blade", 1), ("node", 1), ("numanode", 2), ("core", 4))
    for name, spec in (("deep", deep), ("two", cores_and("fpga", 2))):
        assert created(api, name, **spec, **pool("both"))["cluster"] == "deep"
    for name, spec, reason in (
        ("three", cores_and("fpga", 3), "fpgas: needs 3 on one node, largest node has 2"),
        ("other", cores_and("fpgas", 1), "largest node has none (did you mean 'fpga'?)"),
        ("three levels", nested(("node", 1), ("numanode", 3), ("core", 1)), "numanodes: needs 3"),
    ):
        answer = refused(create(api, name.replace(" ", "-"), **spec, **pool("both")), 400, "no_cluster_large_enough")
        assert reason in answer["message"]
        assert "'plain' has no description by which `" in answer["message"]


@pytest.mark.parametrize(
    ("levels", "types"),
    [
        ((("rack", 3), ("core", 1)), "`rack`"),
        ((("cluster", 1), ("rack", 3), ("node", 1), ("core", 1)), "`rack`"),
        ((("cluster", 2), ("node", 1), ("core", 1)), "`cluster`"),
        ((("node", 1), ("socket", 2), ("core", 1)), "`socket`"),
        ((("node", 1), ("slot", 1), ("socket", 1), ("core", 2)), "`socket`"),
        ((("slot", 1), ("socket", 1), ("core", 2)), "`socket`"),
        ((("rack", 1), ("node", 1), ("socket", 1), ("core", 2)), "`rack` and `socket`"),
    ],
)
def test_how_things_lie_is_not_known_of_a_cluster_without_a_description(
    api: FlaskClient, levels: Any, types: str
) -> None:
    put_cluster(api, "plain")
    report(api, "plain", capacity={"cpu": "64", "nodes": 8}, free={"cpu": "64"})
    put_pool(api, "plain", ["plain"])
    error = refused(create(api, "x", **nested(*levels), **pool("plain")), 400, "no_cluster_large_enough")
    assert f"'plain' has no description by which {types} could be checked" in error["message"]
    assert error["message"].endswith("Describe it or ask for nodes and slots alone.")
    for number, plain in enumerate(
        [
            (("cluster", 1), ("node", 2), ("slot", 2), ("core", 1)),
            (("node", 2), ("slot", 2), ("core", 1)),
            (("slot", 2), ("node", 1), ("core", 1)),
            (("slot", 2), ("core", 1)),
        ]
    ):
        assert created(api, f"y{number}", **nested(*plain), **pool("plain"))["cluster"] == "plain"


@pytest.mark.parametrize("case", LAYERED)
def test_levels_of_a_jobspec_are_asked_of_the_graph(red: FlaskClient, case: str) -> None:
    spec, is_fitting = LAYERED[case]
    answer = create(red, "x", **spec, **pool("red"))
    if is_fitting:
        assert ok(answer)["execution"]["cluster"] == "red"
    else:
        assert "has no place for it" in refused(answer, 400, "no_cluster_large_enough")["message"]


def test_the_number_that_was_taken_of_a_range_is_said(red: FlaskClient) -> None:
    spec = group(type="node", count={"min": 2, "max": 8}, **{"with": cores(12)})
    warning = {
        "code": "count_range",
        "message": "spec.jobspec.resources.g.count asks for 2 to 8: 2 is taken.",
    }
    assert warning in ok(red.post(f"{API}/placements", json=asked("x", **spec, **pool("red"))))["warnings"]
    answer = ok(create(red, "x", **spec, **pool("red")))
    assert warning in answer["warnings"]
    job_of = answer["execution"]["spec"]["job"] if "job" in answer["execution"]["spec"] else answer["execution"]["job"]
    assert job_of["resources"]["nodes"] == 2
    refused(create(red, "y", **group(type="node", count="4+"), **pool("red")), 400, "no_cluster_large_enough")


def test_a_refusal_says_where_the_job_fits(red: FlaskClient) -> None:
    message = refused(create(red, "x", **job("13"), **pool("red")), 400, "no_cluster_large_enough")["message"]
    assert message.endswith("largest node has 12. Ask for less.")
    requires = [{"name": "io", "field": "type", "match": "none-such"}]
    for spec in (job("1", requires), nested(("node", 1), ("core", 1), requires=requires)):
        message = refused(create(red, "x", **spec, **pool("red")), 400, "no_cluster_large_enough")["message"]
        assert message.endswith(". Ask for less or require less.")
    describe(red, "wide", pooled(1, 16))
    message = refused(create(red, "x", **job("13"), **pool("red")), 400, "no_cluster_large_enough")["message"]
    assert message.endswith("largest node has 12. Ask for less."), "nobody has seen an agent of 'wide'"
    report(red, "wide", engine="slurm")
    message = refused(create(red, "x", **job("13"), **pool("red")), 400, "no_cluster_large_enough")["message"]
    assert message.endswith("Ask for less, or for cluster 'wide', which is able.")
    put_pool(red, "large", ["wide"])
    message = refused(create(red, "x", **job("13"), **pool("red")), 400, "no_cluster_large_enough")["message"]
    assert message.endswith("Ask for less, or for pool 'large', which is able.")
    assert created(red, "x", **job("13"), **pool("large"))["cluster"] == "wide"


REQUIRING = {
    "requires": job("1", [{"name": "io", "field": "type", "match": "nvme"}]),
    "compatibility": {"jobspec": {"image": "x", "cores": 1, "compatibility": {"architecture": "arm64"}}},
}


@pytest.mark.parametrize("case", REQUIRING)
def test_a_job_with_requirements_does_not_fit_a_cluster_without_a_description(red: FlaskClient, case: str) -> None:
    put_cluster(red, "bare")
    report(red, "bare", capacity={"cpu": "64", "memory": "1Ti"})
    put_pool(red, "bare", ["bare"])
    error = refused(create(red, "x", **REQUIRING[case], **pool("bare")), 400, "no_cluster_large_enough")
    assert "'bare' has no description by which `requires` (" in error["message"]
    assert "describe it with rainbowctl update cluster-description" in error["message"]
    assert "Describe it or remove the requirements" in error["message"]
    assert "Ask for less" not in error["message"]
    assert created(red, "y", **job("1"), **pool("bare"))["cluster"] == "bare"


def test_the_cluster_that_is_described_gets_what_has_requirements(red: FlaskClient) -> None:
    put_cluster(red, "bare")
    report(red, "bare", capacity={"cpu": "64", "memory": "1Ti"})
    report(red, "red", capacity={"cpu": "36"})
    put_pool(red, "both", ["bare", "red"])
    placed = ok(red.post(f"{API}/placements", json=asked(**REQUIRING["requires"], **pool("both"))))
    assert placed["cluster"] == "red"
    [loser] = [candidate for candidate in placed["candidates"] if candidate["cluster"] == "bare"]
    assert loser["why_not"].startswith("has no description by which `requires` (io type = nvme) could be checked")


def test_what_an_expected_cluster_will_describe_is_not_known_yet(red: FlaskClient) -> None:
    put_cluster(red, "coming")
    put_pool(red, "coming", ["coming"])
    assert created(red, "x", **REQUIRING["requires"], **pool("coming"))["cluster"] == "coming"
