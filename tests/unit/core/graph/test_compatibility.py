"""What an image needs of a machine becomes requirements."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.spec import read_spec
from admin.core.graph.job_requests import request_of
from admin.core.graph.requests import Unit
from admin.core.problems import Invalid
from admin.core.registrations import read_workflow


def requires(**job: Any) -> list[str]:
    [need] = request_of(job).needs
    assert isinstance(need.resource, Unit)
    return [str(requirement) for requirement in need.resource.requires]


def test_annotations_of_an_image_become_requirements() -> None:
    annotations = {
        "org.opencontainers.image.architecture": "arm64",
        "org.supercontainers.mpi.implementation": "mpich",
        "team/anything": "else",
    }
    assert requires(annotations=annotations) == ["containment arch = arm64", "mpi implementation = mpich"]


def test_compatibility_becomes_requirements_beside_those_that_are_given() -> None:
    compatibility = {
        "architecture": "amd64",
        "os": "linux",
        "libraries": {"mpich": {"min": "4.0", "max": "4.2"}, "cuda": "12.1"},
        "accelerators": {"model": "a100"},
    }
    given = [{"name": "io", "field": "type", "match": "shm"}]
    assert requires(requires=given, compatibility=compatibility) == [
        "io type = shm",
        "containment arch = amd64",
        "containment os = linux",
        "libraries mpich from 4.0 to 4.2",
        "libraries cuda = 12.1",
        "accelerators model = a100",
    ]


def test_what_says_nothing_is_refused_only_when_it_is_given() -> None:
    """What was stored before is launched as it was."""
    job = {"command": ["true"], "compatibility": {"os": "linux", "mpi": {}}}
    assert requires(**job) == ["containment os = linux"]
    for read in (read_workflow, read_spec):
        with pytest.raises(Invalid) as refusal:
            read({"job": job})
        assert [problem.field for problem in refusal.value.problems] == ["spec.job.compatibility.mpi"]


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"compatibility": "any"}, "job.compatibility"),
        ({"compatibility": {"libraries": "all"}}, "job.compatibility.libraries"),
        ({"compatibility": {"libraries": {"mpich": {"min": "soon"}}}}, "job.compatibility.libraries.mpich.min"),
        ({"compatibility": {"libraries": {"mpich": {"minn": "4"}}}}, "job.compatibility.libraries.mpich.minn"),
        (
            {"compatibility": {"libraries": {"mpich": {"min": "4", "maxx": 1}}}},
            "job.compatibility.libraries.mpich.maxx",
        ),
        ({"compatibility": {"libraries": {"mpich": {}}}}, "job.compatibility.libraries.mpich"),
        ({"compatibility": {"libraries": {"mpich": ["4"]}}}, "job.compatibility.libraries.mpich.match"),
        ({"compatibility": {"architecture": {"a": 1}}}, "job.compatibility.architecture"),
        ({"compatibility": {"architecture": ""}}, "job.compatibility.architecture"),
        ({"compatibility": {"architecture": 5}}, "job.compatibility.architecture"),
        ({"compatibility": {"os": True}}, "job.compatibility.os"),
        ({"compatibility": []}, "job.compatibility"),
        (
            {"annotations": {"org.opencontainers.image.architecture": ""}},
            "job.annotations.org.opencontainers.image.architecture",
        ),
        ({"annotations": {"org.supercontainers.mpi": "x"}}, "job.annotations.org.supercontainers.mpi"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(job: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        request_of(job)
    assert [problem.field for problem in refusal.value.problems] == [field]


def test_a_misspelt_condition_is_told_with_those_that_there_are() -> None:
    with pytest.raises(Invalid, match=r"unknown field 'minn'. Did you mean 'min'\? Known: match, max, min."):
        request_of({"compatibility": {"libraries": {"mpich": {"minn": "4"}}}})
