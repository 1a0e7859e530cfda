"""Files to start from for `create execution --execFile`: flytectl's keys in flytectl's order, inputs filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ctl.client.answers import Document
from ctl.client.calls.registrations import Identifier
from ctl.client.formats import printable

_INDENT = " " * 4


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What such a file is made from."""

    key: str  #: what flytectl calls it in such files: `workflow` for a launch plan, else `task`
    inputs: Mapping[str, Any]  #: that the workflow declares
    defaults: Mapping[str, Any]  #: values that a launch plan sets
    fixed: Mapping[str, Any]  #: values of a launch plan that can only be mentioned


def execution_sample(sample: Sample, id: Identifier, now: datetime) -> str:
    """
    A file that runs one version of a workflow, task or launch plan.

    Its targets are empty, as flytectl writes them: it runs where -p and -d say.
    """
    return "".join(
        [
            'iamRoleARN: ""\n',
            _inputs(sample, now),
            "envs: {}\n",
            'kubeServiceAcct: ""\n',
            'targetDomain: ""\n',
            'targetProject: ""\n',
            f"task: {_written(id.name)}\n" if sample.key == "task" else "",
            f"version: {_written(id.version)}\n",
            f"workflow: {_written(id.name)}\n" if sample.key == "workflow" else "",
        ]
    )


def _inputs(sample: Sample, now: datetime) -> str:
    lines = [f"{_INDENT}# {name} is fixed to {_written(value)}" for name, value in sample.fixed.items()]
    for name, declared in sample.inputs.items():
        if name in sample.fixed:
            continue
        declared = declared if isinstance(declared, dict) else {"type": declared}
        default = declared.get("default", sample_value(declared, now))
        value = sample.defaults.get(name, default)
        text = " ".join(str(declared.get("description") or "").split())
        remark = f"  # {printable(text)}" if text not in {"", name} else ""
        lines.append(f"{_INDENT}{name}: {_written(value)}{remark}")
    is_empty = all(line.lstrip().startswith("#") for line in lines)
    return "\n".join(["inputs: {}" if is_empty else "inputs:", *lines]) + "\n"


def sample_value(declared: Any, now: datetime) -> Any:
    """A value of the type of an input that has no default."""
    declared = declared if isinstance(declared, dict) else {"type": declared}
    kind = declared.get("type")
    if kind == "list":
        return [sample_value(declared.get("of"), now)]
    if kind == "enum":
        return next(iter(declared.get("values") or []), "")
    plain: Document = {
        "integer": 0,
        "float": 0.0,
        "boolean": False,
        "duration": "1m",
        "datetime": now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "map": {},
    }
    return plain.get(str(kind), "")


def _written(value: Any) -> str:
    """A value as JSON, which YAML reads the same way; words that need no quotes have none."""
    if isinstance(value, str) and value.replace("-", "").replace("_", "").replace(".", "").isalnum():
        is_word = value[0].isalpha() and value.lower() not in {"true", "false", "null"}
        return value if is_word else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
