"""Files to start from for `create execution --execFile`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ctl.client.calls.registrations import Identifier
from ctl.client.yaml_files import Source
from ctl.files.execution_samples import Sample, execution_sample, sample_value
from ctl.files.executions import parse_execution_files

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ID = Identifier(project="flytesnacks", domain="development", name="my.flow", version="1")
INPUTS: dict[str, Any] = {
    "epochs": {"type": "integer", "default": 3, "description": "How\noften"},
    "rate": "float",
    "name": {"type": "string", "description": "name"},
    "seed": {"type": "integer", "description": "For luck"},
    "shards": {"type": "list", "of": "integer"},
}


def sample(
    key: str, inputs: dict[str, Any], defaults: dict[str, Any] | None = None, fixed: dict[str, Any] | None = None
) -> str:
    return execution_sample(Sample(key=key, inputs=inputs, defaults=defaults or {}, fixed=fixed or {}), ID, NOW)


def test_a_launch_plans_defaults_go_before_the_workflows_and_what_it_fixes_is_told() -> None:
    assert sample("workflow", INPUTS, defaults={"epochs": 7}, fixed={"seed": 42}) == (
        'iamRoleARN: ""\n'
        "inputs:\n"
        "    # seed is fixed to 42\n"
        "    epochs: 7  # How often\n"
        "    rate: 0.0\n"
        '    name: ""\n'
        "    shards: [0]\n"
        "envs: {}\n"
        'kubeServiceAcct: ""\n'
        'targetDomain: ""\n'
        'targetProject: ""\n'
        'version: "1"\n'
        "workflow: my.flow\n"
    )


@pytest.mark.parametrize("key", ["workflow", "task"])
def test_the_file_reads_back_as_what_it_says(key: str) -> None:
    [file] = parse_execution_files(Source(name="f.yaml", text=sample(key, INPUTS)))
    assert (file.run_key, file.values[key], file.values["version"]) == (key, "my.flow", "1")
    assert file.values["inputs"] == {"epochs": 3, "rate": 0.0, "name": "", "seed": 0, "shards": [0]}
    assert not {"target_project", "target_domain"} & set(file.values)


def test_without_inputs_there_are_none() -> None:
    assert "\ninputs: {}\nenvs: {}\n" in sample("task", {})
    assert "\ninputs: {}\n    # seed is fixed to 1\nenvs" in sample("workflow", {"seed": "integer"}, fixed={"seed": 1})


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("integer", 0),
        ("float", 0.0),
        ("boolean", False),
        ("string", ""),
        ("duration", "1m"),
        ("datetime", "2026-03-01T12:00:00Z"),
        ({"type": "enum", "values": ["b", "a"]}, "b"),
        ({"type": "list", "of": {"type": "list", "of": "boolean"}}, [[False]]),
        ({"type": "map", "of": "integer"}, {}),
    ],
)
def test_every_type_has_a_value_to_start_from(declared: Any, value: Any) -> None:
    assert sample_value(declared, NOW) == value
