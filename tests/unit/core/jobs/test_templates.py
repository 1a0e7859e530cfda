from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.jobs.templates import as_text, check_job_templates, check_template, fill, fill_job, references
from admin.core.problems import Problem

VALUES = {
    "epochs": 5,
    "rate": 0.5,
    "dry": True,
    "name": "a b; rm -rf $HOME",
    "tags": ["x", 'y"z', "ä"],
    "sizes": {"small": 1},
    "sly": "{{ inputs.epochs }}",
    "brace": "{{",
    "_n": "n",
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{{ inputs.epochs }}", "5"),
        ("{{inputs.epochs}}", "5"),
        ("{{.inputs.epochs}}", "5"),
        ("{{\n .inputs.epochs\t}}", "5"),
        ("--rate={{ inputs.rate }}x{{ inputs.epochs }}", "--rate=0.5x5"),
        ("{{ inputs.dry }}", "true"),
        ("{{ inputs.name }}", "a b; rm -rf $HOME"),
        ("{{ inputs.tags }}", '["x","y\\"z","ä"]'),
        ("{{ inputs.sizes }}", '{"small":1}'),
        ("{{ inputs.sly }}", "{{ inputs.epochs }}"),
        ("{{ inputs.brace }} inputs.epochs }}", "{{ inputs.epochs }}"),
        ("{{ inputs._n }}", "n"),
        ("{{{ inputs.epochs }}}", "{5}"),
        ('{"a":{"b":{{ inputs.epochs }}}}', '{"a":{"b":5}}'),
        ("{{ {{ inputs.epochs }}", "{{ 5"),
        ("{ inputs.epochs }", "{ inputs.epochs }"),
        ("{{ inputs.epochs }", "{{ inputs.epochs }"),
        ("awk '{print $1}' {{", "awk '{print $1}' {{"),
        (r"\1 \g<0> {{ inputs.epochs }}", r"\1 \g<0> 5"),
    ],
)
def test_inputs_are_filled_in_once(template: str, text: str) -> None:
    assert fill(template, VALUES) == text


def test_the_names_that_a_template_uses() -> None:
    assert references("{{ inputs.b }} {{.inputs.a}} {{inputs.b}} {{ other }} { inputs.c }") == ["b", "a"]
    assert references("{{{ inputs.b }}}") == ["b"]


def noted(template: str) -> list[tuple[str, str]]:
    problems: list[Problem] = []
    check_template(template, VALUES, ("job", "command", "1"), problems)
    return [(problem.field, problem.reason) for problem in problems]


@pytest.mark.parametrize(
    "template", ["", "{ x }", "{{ inputs.epochs }}", "{{.inputs.rate}}", "}} {{", "{{{inputs.dry}}}"]
)
def test_a_declared_input_is_no_problem(template: str) -> None:
    assert noted(template) == []


@pytest.mark.parametrize(
    "template",
    [
        "{{ x }}",
        "{{}}",
        "{{ inputs }}",
        "{{ inputs. }}",
        "{{ inputs.a.b }}",
        "{{ inputs.1 }}",
        "{{ inputs.a | upper }}",
        "{{ Inputs.epochs }}",
        "{{ outputs.x }}",
        "{{ inputs['epochs'] }}",
        "{{ inputs.a\n.b }}",
    ],
)
def test_other_expressions_are_refused(template: str) -> None:
    ((field, reason),) = noted(template)
    assert field == "job.command.1"
    assert "is not known: only {{ inputs.NAME }} is filled in." in reason


def test_an_unknown_input_is_named_with_the_nearest_once() -> None:
    problems: list[Problem] = []
    check_template("{{ inputs.epoch }} {{ inputs.epoch }}", VALUES, ("job", "working_directory"), problems)
    assert [problem.field for problem in problems] == ["job.working_directory"]
    assert problems[0].closest == ("epochs",)
    assert problems[0].reason.startswith("unknown input 'epoch'. Did you mean 'epochs'?")


JOB: dict[str, Any] = {
    "command": ["train", "--epochs={{ inputs.epochs }}", "{{ inputs.name }}"],
    "environment": {"NAME": "{{ inputs.name }}", "{{ inputs.epochs }}": "x"},
    "working_directory": "/data/{{ inputs.epochs }}",
    "outputs": ["model-{{ inputs.epochs }}.bin"],
    "image": "train:{{ inputs.epochs }}",
    "resources": {"nodes": 1},
}


def test_a_job_is_filled_argument_by_argument_where_it_may_be() -> None:
    before = repr(JOB)
    assert fill_job(JOB, VALUES) == {
        "command": ["train", "--epochs=5", "a b; rm -rf $HOME"],
        "environment": {"NAME": "a b; rm -rf $HOME", "{{ inputs.epochs }}": "x"},
        "working_directory": "/data/5",
        "outputs": ["model-5.bin"],
        "image": "train:{{ inputs.epochs }}",
        "resources": {"nodes": 1},
    }
    assert repr(JOB) == before
    assert fill_job({"image": "x"}, VALUES) == {"image": "x"}


def test_problems_of_a_job_name_their_fields() -> None:
    problems: list[Problem] = []
    check_job_templates(JOB, {"epochs"}, ("spec", "job"), problems)
    assert [problem.field for problem in problems] == [
        "spec.job.command.2",
        "spec.job.environment.NAME",
        "spec.job.image",
    ]


@given(st.text(), st.text())
def test_the_value_appears_exactly_as_it_is(before: str, value: str) -> None:
    before = before.replace("{", "")
    assert fill(before + "{{ inputs.x }}", {"x": value}) == before + value


@given(st.lists(st.sampled_from(["{{", "}}", "{", "}", " ", "inputs.x", ".inputs.x", "y"])).map("".join))
def test_a_template_without_problems_is_filled_wherever_it_has_an_expression(template: str) -> None:
    problems: list[Problem] = []
    check_template(template, {"x"}, ("t",), problems)
    assert fill(template, {}) == template
    if not problems:
        assert (fill(template, {"x": "5"}) != template) == bool(references(template))


def test_hostile_templates_take_one_pass() -> None:
    template = "{{ " * 300_000
    assert fill(template, {"x": 1}) == template


@pytest.mark.parametrize(("value", "text"), [(False, "false"), (1e21, "1e+21"), (2**63 - 1, "9223372036854775807")])
def test_values_as_text(value: Any, text: str) -> None:
    assert as_text(value) == text
