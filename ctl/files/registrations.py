"""
Documents of workflows and launch plans: what `register files` and `create workflow|launchplan` read.

    kind: workflow
    name: train
    version: v1
    inputs:
      epochs: {type: integer, default: 3, description: How often}
    job:
      command: [python, train.py, --epochs, "{{ inputs.epochs }}"]
    ---
    kind: launchplan
    name: nightly
    version: v1
    workflow: train
    fixedInputs: {epochs: 10}
    clusterPool: gpu
    active: true
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from ctl.client.calls.registrations import LATEST, LAUNCH_PLAN, WORKFLOW, Identifier
from ctl.client.errors import ClientError, InvalidInput, InvalidRequest
from ctl.client.facts import INPUT_TYPES, SCHEMAS
from ctl.client.kinds import Schema, built_in
from ctl.client.scopes import Scope, check_name
from ctl.client.words import count, did_you_mean, fold
from ctl.client.yaml_files import Problem, Source
from ctl.files.attributes import AttributeFile
from ctl.files.conversion import BAD, Converter
from ctl.files.readings import DocumentReader
from ctl.files.retries import RETRY_SCHEMA

TITLES = {WORKFLOW: "workflow", LAUNCH_PLAN: "launch plan"}

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_ANY_MAP: Schema = {"type": "object", "additionalProperties": True}

#: How the values of an input are written, by its type; a list and a map say what they hold.
_VALUES: Mapping[str, Schema] = {
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "boolean": {"type": "boolean"},
    **dict.fromkeys(("string", "duration", "datetime", "enum"), _TEXT),
}
_TYPE: Schema = {"type": "string", "enum": list(INPUT_TYPES)}

_FRAME: Mapping[str, Schema] = dict.fromkeys(("kind", "project", "domain", "name", "version", "description"), _TEXT)
_WORKFLOW_ID: Schema = {
    "type": "object",
    "properties": dict.fromkeys(("name", "version", "project", "domain"), _TEXT),
    "required": ["name"],
}

#: Where a field of the request stands in a document, by the start of its path.
_PATHS = {
    "id": ("",),
    "spec.workflow_id.version": ("workflow.version", "workflow_version", "workflow"),
    "spec.workflow_id": ("workflow",),
    "spec.cluster_assignment": ("cluster_pool",),
    "spec.execution_cluster_label": ("execution_cluster_label",),
    "spec.security_context.run_as.k8s_service_account": ("kube_service_acct", "security_context"),
    "spec.security_context.run_as.iam_role": ("iam_role_arn", "security_context"),
    "spec.security_context": ("security_context", "kube_service_acct", "iam_role_arn"),
    "spec.raw_output_data_config": ("raw_output_data_config", "output_location_prefix"),
    "spec.labels.values": ("labels.values", "labels"),
    "spec.annotations.values": ("annotations.values", "annotations"),
    "spec.envs.values": ("envs.values", "envs"),
    "state": ("active",),
    "spec": ("",),
}


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One document: a version of a workflow or of a launch plan."""

    noun: str  #: workflow or launch_plan
    name: str
    version: str | None = None
    project: str | None = None
    domain: str | None = None
    spec: Mapping[str, Any]  #: as the API takes it; of a launch plan without a workflow
    workflow: Mapping[str, str] | None = None  #: the workflow of a launch plan, as far as the document says
    active: bool | None = None  #: what the document says of a launch plan
    file: AttributeFile  #: where each field stands
    line: int
    column: int

    @property
    def place(self) -> str:
        """Where it starts: `train.yaml:12:1`."""
        return f"{self.file.name}:{self.line}:{self.column}"

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What no two documents of a set may share."""
        return (self.noun, self.project, self.domain, self.name, self.version)

    @property
    def title(self) -> str:
        """What it is about, in words."""
        version = f" version {self.version}" if self.version else ""
        return f"{TITLES[self.noun]} {self.name}{version}"

    def completed(self, project: str | None, domain: str | None, version: str | None) -> Registration:
        """The same with defaults for what the document leaves out; an error with its place if one is missing."""
        whole = replace(
            self,
            project=self.project or project,
            domain=self.domain or domain,
            version=self.version or version,
        )
        flags = {"project": "-p PROJECT", "domain": "-d DOMAIN", "version": "--version V"}
        for key, flag in flags.items():
            word = getattr(whole, key)
            if not word:
                raise InvalidInput(f"{self.place}: {self.title} lacks a {key}: write it there, or give {flag}.")
            check_name(key, word)
        if whole.version == LATEST:
            raise InvalidInput(f"{self.place}: no version can be called {LATEST}, which means the newest.")
        return whole

    @property
    def id(self) -> Identifier:
        """What it is registered as, once it is complete."""
        return Identifier(project=str(self.project), domain=str(self.domain), name=self.name, version=str(self.version))

    def workflow_id(self) -> dict[str, str]:
        """The workflow of a launch plan: in its own project and domain unless it says otherwise."""
        return {"project": str(self.project), "domain": str(self.domain), **(self.workflow or {})}

    def locate(self, error: ClientError) -> ClientError:
        """The admin's refusal with the place of each field that it names."""
        error.details = error.details or [{}]
        for detail in error.details:
            path = str(detail.get("field") or "")
            if error.name == "workflow_not_found" and self.noun == LAUNCH_PLAN:
                path = f"spec.workflow_id.{path}".rstrip(".")
            position = self._position(path)
            detail["position"] = f"{self.file.name}:{position[0]}:{position[1]}" if position else self.place
            if isinstance(error, InvalidRequest):
                detail["field"] = str(detail.get("field") or "").removeprefix("spec.")
            else:
                # The message tells all of it, except which document it is about.
                detail |= {"reason": self.title, "field": "", "closest": []}
        if isinstance(error, InvalidRequest) and all("reason" in detail for detail in error.details):
            # The details have positions, so the message need not repeat them.
            error.message = f"The admin refused {self.title}: {count(len(error.details), 'problem')}."
        return error

    def _position(self, path: str) -> tuple[int, int] | None:
        for start, keys in _PATHS.items():
            if path == start or path.startswith((f"{start}.", f"{start}[")):
                rest = path[len(start) :].lstrip(".")
                candidates = [f"{key}.{rest}".strip(".") for key in keys]
                break
        else:
            candidates = [path]
        exact = (self.file.positions.get(each.replace("[", ".").replace("]", "")) for each in candidates)
        above = (self.file.position(each, "") for each in candidates)
        return next((found for found in [*exact, *above] if found), None)


def read_registrations(paths: Sequence[str], noun: str | None = None) -> list[Registration]:
    """
    Every document that files, directories and stdin hold; every problem is reported at once.

    With a `noun` documents of another kind are refused, and `kind` may be left out.
    """
    return _reading(noun).read_all(paths)


def parse_registrations(source: Source, noun: str | None = None) -> list[Registration]:
    """As `read_registrations`, from text."""
    reading = _reading(noun)
    reading.add(source)
    return reading.finish()


def _reading(noun: str | None) -> DocumentReader[Registration]:
    return DocumentReader(lambda node, name: _registration(node, name, noun))


_NOUNS = {
    **dict.fromkeys(("workflow", "workflows", "task", "tasks"), WORKFLOW),
    **dict.fromkeys(("launchplan", "launchplans"), LAUNCH_PLAN),
}


def _registration(node: yaml.MappingNode, name: str, expected: str | None) -> tuple[Registration | None, list[Problem]]:
    noun, problems = _noun(node, expected)
    if noun is None:
        return None, problems
    converter = Converter()
    converter.problems = problems
    values = converter.mapping(node, {"properties": _properties(node, noun)})
    frame = {key: values.pop(key) for key in _FRAME if key in values}
    problems += _frame_problems(frame, node, converter.positions)
    if noun == WORKFLOW:
        spec = _workflow_spec(values, node, converter)
    else:
        problems += _contradictions(values, node, converter.positions)
        spec = _launch_spec(values)
    if frame.get("description"):
        spec = {"description": frame["description"], **spec}
    return Registration(
        noun=noun,
        name=str(frame.get("name", "")),
        version=frame.get("version"),
        project=frame.get("project"),
        domain=frame.get("domain"),
        spec=spec,
        workflow=_workflow(values) if noun == LAUNCH_PLAN else None,
        active=values.get("active"),
        file=AttributeFile(name=name, scope=Scope(), payload=values, positions=converter.positions),
        line=node.start_mark.line + 1,
        column=node.start_mark.column + 1,
    ), problems


def _workflow_spec(values: Mapping[str, Any], node: yaml.MappingNode, converter: Converter) -> dict[str, Any]:
    if "job" not in converter.positions:
        converter.note(node, "lacks job: what does the workflow run?")
    inputs = {"inputs": _inputs(_child(node, "inputs"), converter)} if values.get("inputs") else {}
    return {**values, **inputs}


def _noun(node: yaml.MappingNode, expected: str | None) -> tuple[str | None, list[Problem]]:
    word = _child(node, "kind")
    if word is None:
        reason = "lacks kind: write `kind: workflow` or `kind: launchplan`"
        return expected, [] if expected else [Problem.at(node.start_mark, reason)]
    text = word.value if isinstance(word, yaml.ScalarNode) else ""
    noun = _NOUNS.get(fold(text))
    if noun is None:
        hint = did_you_mean(text, ["workflow", "launchplan"]) or " There is workflow and launchplan."
        also = " `rainbowctl apply -f` takes settings, projects and the fleet." if text else ""
        return None, [Problem.at(word.start_mark, f"there is nothing to register called {text!r}.{hint}{also}", "kind")]
    if expected is not None and noun != expected:
        reason = f"this is a {TITLES[noun]}, not a {TITLES[expected]}: `rainbowctl register files` takes both"
        return None, [Problem.at(word.start_mark, reason, "kind")]
    return noun, []


def _frame_problems(
    frame: Mapping[str, Any], node: yaml.MappingNode, positions: Mapping[str, tuple[int, int]]
) -> list[Problem]:
    problems = []
    for key in ("name", "project", "domain", "version"):
        if key not in frame:
            continue
        try:
            check_name(key, frame[key])
        except InvalidInput as error:
            line, column = positions[key]
            problems.append(Problem(line=line, column=column, reason=error.message.rstrip("."), field=key))
    if "name" not in positions:
        problems.append(Problem.at(node.start_mark, "lacks name: what is it called?"))
    return problems


def _properties(node: yaml.MappingNode, noun: str) -> dict[str, Schema]:
    if noun == WORKFLOW:
        return {**_FRAME, "inputs": _ANY_MAP, "job": SCHEMAS["job"]}
    config = _settings_schema()
    workflow = _child(node, "workflow")
    service = _child(node, "qualityofservice")
    return {
        **_FRAME,
        "workflow": _WORKFLOW_ID if isinstance(workflow, yaml.MappingNode) else _TEXT,
        "workflow_version": _TEXT,
        "default_inputs": _ANY_MAP,
        "fixed_inputs": _ANY_MAP,
        "cluster_pool": _TEXT,
        "execution_cluster_label": _TEXT,
        **{key: _plain_or_wrapped(_child(node, key), config[key]) for key in ("labels", "annotations", "envs")},
        "kube_service_acct": _TEXT,
        "iam_role_arn": _TEXT,
        "security_context": config["security_context"],
        "max_parallelism": config["max_parallelism"],
        "interruptible": config["interruptible"],
        "overwrite_cache": config["overwrite_cache"],
        "raw_output_data_config": config["raw_output_data_config"],
        "output_location_prefix": _TEXT,
        "quality_of_service": _urgency_schema() if isinstance(service, yaml.MappingNode) else _tier_schema(),
        "retry": RETRY_SCHEMA,
        "active": {"type": "boolean"},
    }


def _settings_schema() -> Mapping[str, Schema]:
    """The fields of an execution's settings, which launch plans may hold as attributes do."""
    properties: Mapping[str, Schema] = next(
        kind.schema["properties"] for kind in built_in() if kind.name == "WORKFLOW_EXECUTION_CONFIG"
    )
    return properties


def _urgency_schema() -> Schema:
    return next(kind.schema for kind in built_in() if kind.name == "QUALITY_OF_SERVICE_SPECIFICATION")


def _tier_schema() -> Schema:
    tier: Schema = _urgency_schema()["properties"]["tier"]
    return tier


def _plain_or_wrapped(node: yaml.Node | None, schema: Schema) -> Schema:
    """The schema of `{values: {team: ml}}`, as the API writes it, or of what is in it, as people do."""
    is_wrapped = isinstance(node, yaml.MappingNode) and [key.value for key, _part in node.value] == ["values"]
    inner: Schema = schema["properties"]["values"]
    if isinstance(node, yaml.MappingNode) and is_wrapped and not isinstance(node.value[0][1], yaml.ScalarNode):
        return schema
    return inner


def _inputs(node: yaml.Node | None, converter: Converter) -> dict[str, Any]:
    """Inputs by name, each as its type wants it."""
    parts = node.value if isinstance(node, yaml.MappingNode) else []
    inputs = {
        key.value: converter.value(part, _input_schema(part), f"inputs.{key.value}")
        for key, part in parts
        if isinstance(key, yaml.ScalarNode)
    }
    return {name: value for name, value in inputs.items() if value is not BAD}


def _input_schema(node: yaml.Node) -> Schema:
    """A type alone, or `{type, default, description, values, of}`."""
    if not isinstance(node, yaml.MappingNode):
        return _TYPE
    of = _child(node, "of")
    return {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": _TYPE,
            "default": _default_schema(node),
            "description": _TEXT,
            "values": _TEXTS,
            **({} if of is None else {"of": _input_schema(of)}),
        },
    }


def _default_schema(node: yaml.Node) -> Schema:
    """What values of an input look like whose type a node says."""
    word = _child(node, "type") if isinstance(node, yaml.MappingNode) else node
    name = fold(word.value) if isinstance(word, yaml.ScalarNode) else ""
    if name in _VALUES:
        return _VALUES[name]
    of = _child(node, "of") if isinstance(node, yaml.MappingNode) else None
    inner = _default_schema(of) if of is not None else {}
    if name == "list":
        return {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner or True} if name == "map" else {}


def _child(node: yaml.Node, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((part for key, part in node.value if fold(str(key.value)) == fold(name)), None)


_SAME = (
    ("security_context", "kube_service_acct"),
    ("security_context", "iam_role_arn"),
    ("raw_output_data_config", "output_location_prefix"),
)


def _contradictions(
    values: Mapping[str, Any], node: yaml.MappingNode, positions: Mapping[str, tuple[int, int]]
) -> list[Problem]:
    problems = []
    if "workflow" not in positions:
        problems.append(Problem.at(node.start_mark, "lacks workflow: what does the launch plan launch?"))
    pairs = [*_SAME]
    if isinstance(values.get("workflow"), dict) and "version" in values["workflow"]:
        pairs.append(("workflow", "workflow_version"))
    for first, second in pairs:
        if first in values and second in values:
            line, column = positions[second]
            reason = f"says the same as {first}: keep one of the two"
            problems.append(Problem(line=line, column=column, reason=reason, field=second))
    return problems


def _workflow(values: Mapping[str, Any]) -> dict[str, str]:
    named = values.get("workflow") or {}
    workflow = dict(named) if isinstance(named, dict) else {"name": str(named)}
    if values.get("workflow_version"):
        workflow["version"] = values["workflow_version"]
    if workflow.get("version") == LATEST:
        del workflow["version"]
    return workflow


def _launch_spec(values: Mapping[str, Any]) -> dict[str, Any]:
    """A launch plan's fields as the API has them."""
    same = (
        "default_inputs",
        "fixed_inputs",
        "security_context",
        "max_parallelism",
        "interruptible",
        "overwrite_cache",
        "raw_output_data_config",
        "retry",
    )
    spec = {key: values[key] for key in same if key in values}
    if values.get("cluster_pool"):
        spec["cluster_assignment"] = {"cluster_pool_name": values["cluster_pool"]}
    if values.get("execution_cluster_label"):
        spec["execution_cluster_label"] = {"value": values["execution_cluster_label"]}
    for key in ("labels", "annotations", "envs"):
        if key in values:
            entries = values[key]
            is_wrapped = isinstance(entries, dict) and isinstance(entries.get("values"), (dict, list))
            spec[key] = entries if is_wrapped else {"values": entries}
    run_as = {"k8s_service_account": values.get("kube_service_acct"), "iam_role": values.get("iam_role_arn")}
    if any(run_as.values()):
        spec["security_context"] = {"run_as": {key: word for key, word in run_as.items() if word}}
    if values.get("output_location_prefix"):
        spec["raw_output_data_config"] = {"output_location_prefix": values["output_location_prefix"]}
    if (urgency := values.get("quality_of_service")) is not None:
        spec["quality_of_service"] = urgency if isinstance(urgency, dict) else {"tier": urgency}
    return spec
