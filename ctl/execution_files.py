"""Execution files: what `--execFile` and `--jobspec` read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctl.conversion import Converter
from ctl.errors import InvalidInput, InvalidRequest
from ctl.files import parse_flow
from ctl.kinds import Schema
from ctl.retries import RETRY_SCHEMA
from ctl.sources import Problem, Source, compose_mapping, read_source
from ctl.words import count, fold

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_ANYTHING: Schema = {}

#: Keys that say what to run, of which a file may have one.
WHAT = ("launchplan", "workflow", "task", "job", "jobspec")

#: flytectl's keys first, then ours.
FILE_SCHEMA: Schema = {
    "properties": {
        "workflow": _TEXT,
        "task": _TEXT,
        "version": _TEXT,
        "inputs": _ANYTHING,
        "envs": _TEXTS,
        "kubeServiceAcct": _TEXT,
        "iamRoleARN": _TEXT,
        "targetProject": _TEXT,
        "targetDomain": _TEXT,
        "clusterPool": _TEXT,
        "targetExecutionCluster": _TEXT,
        "overwriteCache": {"type": "boolean"},
        "launchplan": _TEXT,
        "job": _ANYTHING,
        "jobspec": _ANYTHING,
        "executionClusterLabel": _TEXT,
        "cluster": _TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "interruptible": {"type": "boolean"},
        "maxParallelism": {"type": "integer", "minimum": 0},
        "outputLocationPrefix": _TEXT,
        "qualityOfService": _ANYTHING,
        "securityContext": _ANYTHING,
        "executionEnvAssignments": _ANYTHING,
        "retry": RETRY_SCHEMA,
    }
}
_REFUSED = {
    fold(key): f"belongs on the command line: use --{key}" for key in ("dryRun", "relaunch", "recover", "execFile")
}
#: Pairs of keys for the same thing.
_SAME = (
    ("targetExecutionCluster", "executionClusterLabel"),
    ("securityContext", "kubeServiceAcct"),
    ("securityContext", "iamRoleARN"),
)
_MAPPINGS = ("inputs", "job", "jobspec", "qualityOfService", "securityContext")

#: Where a field of the request stands in a file, by the start of its path.
_PATHS = {
    "spec.launch_plan.name": ("launchplan", "workflow", "task"),
    "spec.launch_plan.version": ("version",),
    "spec.launch_plan": ("launchplan", "workflow", "task"),
    "spec.cluster_assignment": ("clusterPool",),
    "spec.execution_cluster_label": ("executionClusterLabel", "targetExecutionCluster"),
    "spec.security_context.run_as.k8s_service_account": ("kubeServiceAcct",),
    "spec.security_context.run_as.iam_role": ("iamRoleARN",),
    "spec.security_context": ("securityContext", "kubeServiceAcct", "iamRoleARN"),
    "spec.quality_of_service": ("qualityOfService",),
    "spec.execution_env_assignments": ("executionEnvAssignments",),
    "spec.raw_output_data_config": ("outputLocationPrefix",),
    "spec.max_parallelism": ("maxParallelism",),
    "spec.overwrite_cache": ("overwriteCache",),
    "spec.envs.values": ("envs",),
    "spec.labels.values": ("labels",),
    "spec.annotations.values": ("annotations",),
    "project": ("targetProject",),
    "domain": ("targetDomain",),
}


@dataclass(frozen=True, kw_only=True)
class ExecutionFile:
    """A checked file with the values in it, by flytectl's names of the keys, and where they stand."""

    name: str
    values: Mapping[str, Any]
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def what(self) -> str | None:
        """The key that says what to run."""
        return next((key for key in WHAT if key in self.values), None)

    def locate(self, error: InvalidRequest) -> InvalidRequest:
        """The admin's refusal with the position of each field that stands in this file."""
        found = [self._position(str(detail.get("field") or "")) for detail in error.details]
        for detail, position in zip(error.details, found, strict=True):
            if position:
                detail["position"] = f"{self.name}:{position[0]}:{position[1]}"
        if found and all(found):
            # The message repeats what the details say; with positions they say it better.
            error.message = f"The admin refused {self.name}: {count(len(found), 'problem')}."
        return error

    def _position(self, path: str) -> tuple[int, int] | None:
        path = path.replace("[", ".").replace("]", "")
        for start, keys in _PATHS.items():
            if path == start or path.startswith(f"{start}."):
                candidates = [f"{key}{path[len(start) :]}" for key in keys]
                break
        else:
            candidates = [path.removeprefix("spec.")]
        for inner in candidates:
            while inner:
                if inner in self.positions:
                    return self.positions[inner]
                inner = inner.rpartition(".")[0]
        return None


def read_execution_file(path: str) -> ExecutionFile:
    """Read and check a file for `--execFile`; every problem is reported at once."""
    return parse_execution_file(read_source(path))


def parse_execution_file(source: Source) -> ExecutionFile:
    """As `read_execution_file`, from text."""
    node, problems = compose_mapping(source)
    converter = Converter()
    read = converter.mapping(node, FILE_SCHEMA, refused=_REFUSED)
    problems += converter.problems
    # A file that flytectl generated leaves unset what it writes as an empty text.
    values = {key: value for key, value in read.items() if value != ""}
    place = {key: converter.positions[key] for key in values}
    named = [key for key in WHAT if key in values]
    for key in named[1:]:
        problems.append(_at(place[key], key, f"{named[0]} says already what to run: keep one of the two"))
    if "version" in values and named and named[0] in {"job", "jobspec"}:
        problems.append(_at(place["version"], "version", f"a {named[0]} has no version: remove it"))
    for one, other in _SAME:
        if one in values and other in values:
            problems.append(_at(place[other], other, f"says the same as {one}: keep one of the two"))
    for key in _MAPPINGS:
        if key in values and not isinstance(values[key], dict):
            problems.append(_at(place[key], key, "must hold keys and values"))
    if problems:
        raise source.refuse(problems)
    return ExecutionFile(name=source.name, values=values, positions=converter.positions)


def read_jobspec(path: str) -> ExecutionFile:
    """A jobspec, whose form is for the admin to judge."""
    source = read_source(path)
    node, problems = compose_mapping(source)
    converter = Converter()
    document = converter.value(node, _ANYTHING, "jobspec")
    if problems + converter.problems:
        raise source.refuse(problems + converter.problems)
    return ExecutionFile(name=source.name, values={"jobspec": document}, positions=converter.positions)


def parse_input(text: str) -> Any:
    """
    The value of `--input NAME=VALUE`, read as YAML: 5, true, [1, 2]; quotes make text, and nothing is empty text.

    Raises InvalidInput for what is no YAML.
    """
    if not text.strip():
        return ""
    try:
        return parse_flow(text, _ANYTHING, "the value")
    except InvalidInput as error:
        reason = str(error.details[0]["reason"]) if error.details else error.message.removeprefix("the value: ")
        raise InvalidInput(f"{reason.rstrip('.')}; text is quoted once more: '\"{text}\"'") from None


def _at(position: tuple[int, int], key: str, reason: str) -> Problem:
    return Problem(line=position[0], column=position[1], reason=reason, field=key)
