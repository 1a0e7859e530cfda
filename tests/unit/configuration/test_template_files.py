from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from admin.configuration.external_values import ExternalReader, ExternalSource
from admin.configuration.small_files import MOST_BYTES
from admin.configuration.template_files import TemplateFiles, read_templates
from admin.core.cluster_resources.rendering import Rendering, render
from admin.core.cluster_resources.templates import TemplateSet
from admin.core.cluster_resources.values import Value
from admin.core.settings.scopes import Scope

SCOPE = Scope("development", "flyteexamples")
NAMESPACE = "flyteexamples-development"


def templates(directory: Path, text: str) -> TemplateSet:
    file = directory / "objects.yaml"
    file.write_text(text)
    return read_templates([file])


def rendered(template_set: TemplateSet, **values: str) -> Rendering:
    given = {"namespace": NAMESPACE, "project": "flyteexamples", "domain": "development", **values}
    return render(template_set, SCOPE, NAMESPACE, {name: Value(text) for name, text in given.items()}, {})


def documents(template_set: TemplateSet, **values: str) -> list[dict[str, Any]]:
    rendering = rendered(template_set, **values)
    assert rendering.problems == ()
    return [dict(entry.document) for entry in rendering.objects]


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata:
  name: project-quota
  namespace: {{ namespace }}
spec:
  hard:
    limits.cpu: {{ projectQuotaCpu }}
    limits.memory: "{{projectQuotaMemory}}"  # {{ not read }}
"""


def test_variables_are_filled_in_as_text_in_any_style(tmp_path: Path) -> None:
    quota = templates(tmp_path, QUOTA)
    (document,) = documents(quota, projectQuotaCpu="1000", projectQuotaMemory="5Ti")
    assert document["spec"] == {"hard": {"limits.cpu": "1000", "limits.memory": "5Ti"}}
    assert document["metadata"]["namespace"] == NAMESPACE
    assert (
        rendered(quota, projectQuotaCpu="1", projectQuotaMemory="2").digest
        != rendered(quota, projectQuotaCpu="1", projectQuotaMemory="3").digest
    )


HOSTILE = [
    "1\n---\napiVersion: v1\nkind: Secret",
    '1"\n    pods: "1',
    "1, pods: 1}",
    "{{ namespace }}",
    "&a [*a]",
    "!!python/object/apply:os.system [id]",
    "x" * 100_000,
    "0123",
    "yes",
    "null",
    "# nothing",
    "",
]


@pytest.mark.parametrize("style", ["{{ v }}", '"{{ v }}"', "'{{ v }}'", "|-\n    {{ v }}", ">-\n    {{ v }}"])
def test_a_value_stays_one_text_whatever_it_holds(tmp_path: Path, style: str) -> None:
    template = templates(
        tmp_path, f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  x: {style}\n  y: '1'\n"
    )
    for value in HOSTILE:
        (document,) = documents(template, v=value)
        assert document == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {"x": value, "y": "1"},
        }


def test_types_are_asked_for_by_tags(tmp_path: Path) -> None:
    template = templates(
        tmp_path,
        "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"
        'spec: {n: !!int "{{ n }}", f: !!float "{{ f }}", b: !!bool "{{ b }}", c: 3, on: true, at: 0755, s: "3"}\n',
    )
    (document,) = documents(template, n="3", f="0.5", b="true")
    assert document["spec"] == {"n": 3, "f": 0.5, "b": True, "c": 3, "on": True, "at": "0755", "s": "3"}
    (problem,) = rendered(template, n="3]", f="1", b="true").problems
    assert problem == "objects.yaml:4: '3]' is not of the type !!int."


@pytest.mark.parametrize(
    ("name", "data"), [("{{ v }}", "x"), ("a", '!!int "{{ v }}"'), ("a", '!!bool "-{{ v }}-"'), ("{{ v }}/b", "x")]
)
def test_no_problem_tells_a_value_of_the_environment_or_a_file(tmp_path: Path, name: str, data: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{name}'}}\ndata: {{a: {data}}}\n"
    values = {"v": Value("s3cret", source="environment variable V")}
    rendering = render(templates(tmp_path, f"{text}---\n{text}"), SCOPE, NAMESPACE, values, {})
    assert rendering.problems
    assert "s3cret" not in str(rendering.problems)
    assert "(hidden)" in rendering.problems[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\n{% for x in y %}\nb: 2\n{% endfor %}", "objects.yaml:2: '{% for x in y %}' is not a variable"),
        ("apiVersion: v1\nkind: {{ project | upper }}", "objects.yaml:2: '{{ project | upper }}' is not a variable"),
        ("a: {{ project.x() }}", "objects.yaml:1: '{{ project.x() }}' is not a variable"),
        ("# {{ a | b }}\nx: 1\n\ny: {{ range .Items }}", "objects.yaml:4: '{{ range .Items }}' is not a variable"),
        ("a: b\n\nc: {{ project", "objects.yaml:3: '{{' is not a variable"),
        ("a: {# note #}", "objects.yaml:1: '{# note #}' is not a variable"),
        ("{{ project }}: a", "objects.yaml:1: a variable may stand in values, not in keys."),
        ("a: 1\na: 2", "objects.yaml:2: the key 'a' stands twice."),
        ("a: &x {b: 1}\nc: *x", "aliases are not allowed"),
        ("a: !!python/name:os.system x", "is not allowed"),
        ("a: [", "objects.yaml:1: is not YAML"),
        ("- a", "objects.yaml:1: is not a Kubernetes object"),
        ("apiVersion: v1\nkind: {{ project }}\nmetadata: {name: a}", "kind is missing, or is not a text without"),
        ("apiVersion: v1\nkind: Pod", "metadata.name is missing"),
        ("apiVersion: v1\nkind: List\nitems: []", "is a list"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: kube-system}", "metadata.namespace must be"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: '{{ other }}'}", "metadata.namespace must be"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}", "must have {{ namespace }} in it"),
    ],
)
def test_what_is_no_template_is_refused_with_its_file_and_line(tmp_path: Path, text: str, problem: str) -> None:
    template_set = templates(tmp_path, text)
    assert problem in template_set.problems[0]
    assert rendered(template_set).objects == ()
    assert rendered(template_set).problems == template_set.problems


def test_a_variable_without_a_value_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    problems = rendered(templates(tmp_path, QUOTA), projectQuotaCpu="1").problems
    assert problems == (
        "objects.yaml:10: the variable 'projectQuotaMemory' has no value: set it by a cluster-resource-attribute, "
        "or for all by cluster_resources.templateData.",
    )


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "..", "", "a%2fb", "a\nb", "x" * 254])
def test_a_value_cannot_name_what_is_elsewhere(tmp_path: Path, name: str) -> None:
    template = templates(tmp_path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ n }}'}\n")
    (problem,) = rendered(template, n=name).problems
    assert "is no name of a Kubernetes object" in problem


def test_an_object_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ n }}'}\n"
    (problem,) = rendered(templates(tmp_path, f"{text}---\n{text}"), n="a").problems
    assert problem == "objects.yaml:5: ConfigMap/a stands in objects.yaml:1 as well."


def test_built_in_templates_leave_out_what_has_no_value() -> None:
    built_in = TemplateFiles(None).current()
    assert built_in.problems == ()
    assert [document["kind"] for document in documents(built_in)] == ["Namespace"]
    by_kind = {
        document["kind"]: document
        for document in documents(
            built_in,
            projectQuotaCpu="1000",
            imagePullSecrets="one, two",
            taskDefaultCpu="1",
            taskLimitCpu="2",
            defaultIamRole="arn:aws:iam::1:role/x",
        )
    }
    assert by_kind["ResourceQuota"]["spec"] == {"hard": {"limits.cpu": "1000"}}
    assert by_kind["ServiceAccount"]["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert by_kind["ServiceAccount"]["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"
    }
    assert by_kind["LimitRange"]["spec"]["limits"] == [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}, "max": {"cpu": "2"}}
    ]


def test_what_is_no_file_or_too_large_fails_without_being_read(tmp_path: Path) -> None:
    large, pipe = tmp_path / "a.yaml", tmp_path / "b.yaml"
    os.mkfifo(pipe)  # nobody writes to it: who opens it waits
    with large.open("wb") as file:
        file.truncate(64 * 1024 * MOST_BYTES)  # without taking any room
    assert read_templates([large, pipe]).problems == (
        f"a.yaml:1: has {64 * 1024 * MOST_BYTES} bytes; the most is {MOST_BYTES}.",
        "b.yaml: cannot be read: not a regular file.",
    )
    sources = tuple(ExternalSource(key=path.name, path=str(path)) for path in (large, pipe, Path("/dev/zero")))
    assert [value.problem for value in ExternalReader(sources).current().values()] == [
        f"the file {large} has {64 * 1024 * MOST_BYTES} bytes; the most is {MOST_BYTES}.",
        f"the file {pipe} cannot be read: not a regular file.",
        "the file /dev/zero cannot be read: not a regular file.",
    ]


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    now = 0.0
    files = TemplateFiles(str(tmp_path), monotonic=lambda: now)
    assert "has no template" in files.current().problems[0]
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (tmp_path / "ignored.txt").write_text("{{")
    now = 2.0
    first = files.current()
    assert [template.file for template in first.templates] == ["a.yaml"]
    now = 4.0
    assert files.current() is first
    (tmp_path / "b.yml").write_text("{{")
    now = 6.0
    assert files.current().problems[0].startswith("b.yml:1:")
    missing = TemplateFiles(str(tmp_path / "absent")).current()
    assert "cannot be read" in missing.problems[0]
