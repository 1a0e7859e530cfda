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
from ctl.client.scopes import check_name
from ctl.client.words import count, did_you_mean, fold
from ctl.client.yaml_files import Problem
from ctl.files.conversion import BAD, Converter, child_node
from ctl.files.positions import Positions, find_request_position, start_of
from ctl.files.readings import DocumentReader
from ctl.files.registration_schemas import FRAME, document_properties, input_schema
from ctl.files.run_settings import PATHS, REFUSED, settings_spec

TITLES = {WORKFLOW: "workflow", LAUNCH_PLAN: "launch plan"}

#: Where a field of the request stands in a document, by the start of its path.
_PATHS = {
    "id": ("",),
    "spec.workflow_id.version": ("workflow.version", "workflow_version", "workflow"),
    "spec.workflow_id": ("workflow",),
    "state": ("active",),
    **PATHS,
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
    file: str  #: its name
    positions: Positions
    place: str  #: where it starts: `train.yaml:12:1`

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
        completed = replace(
            self,
            project=self.project or project,
            domain=self.domain or domain,
            version=self.version or version,
        )
        flags = {"project": "-p PROJECT", "domain": "-d DOMAIN", "version": "--version V"}
        for key, flag in flags.items():
            word = getattr(completed, key)
            if not word:
                raise InvalidInput(f"{self.place}: {self.title} lacks a {key}: write it there, or give {flag}.")
            check_name(key, word)
        if completed.version == LATEST:
            raise InvalidInput(f"{self.place}: no version can be called {LATEST}, which means the newest.")
        return completed

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
            position = find_request_position(self.positions, path, _PATHS)
            detail["position"] = f"{self.file}:{position[0]}:{position[1]}" if position else self.place
            if isinstance(error, InvalidRequest):
                detail["field"] = str(detail.get("field") or "").removeprefix("spec.")
            else:
                # The message tells all of it, except which document it is about.
                detail |= {"reason": self.title, "field": "", "closest": []}
        if isinstance(error, InvalidRequest) and all("reason" in detail for detail in error.details):
            # The details have positions, so the message need not repeat them.
            error.message = f"The admin refused {self.title}: {count(len(error.details), 'problem')}."
        return error


def read_registrations(paths: Sequence[str], noun: str | None = None) -> list[Registration]:
    """
    Every document that files, directories and stdin hold; every problem is reported at once.

    With a `noun` documents of another kind are refused, and `kind` may be left out.
    """
    return registration_reader(noun).read_all(paths)


def registration_reader(noun: str | None) -> DocumentReader[Registration]:
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
    values = converter.mapping(node, {"properties": document_properties(node, noun)}, refused=REFUSED)
    frame = {key: values.pop(key) for key in FRAME if key in values}
    _check_frame(frame, node, converter)
    if noun == WORKFLOW:
        spec = _workflow_spec(values, node, converter)
    else:
        _check_launch_plan(values, node, converter)
        spec = settings_spec(values)
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
        file=name,
        positions=converter.positions,
        place=start_of(node, name),
    ), problems


def _workflow_spec(values: Mapping[str, Any], node: yaml.MappingNode, converter: Converter) -> dict[str, Any]:
    if "job" not in converter.positions:
        converter.note(node, "lacks job: what does the workflow run?")
    inputs = {"inputs": _inputs(child_node(node, "inputs"), converter)} if values.get("inputs") else {}
    return {**values, **inputs}


def _noun(node: yaml.MappingNode, expected: str | None) -> tuple[str | None, list[Problem]]:
    word = child_node(node, "kind")
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


def _check_frame(frame: Mapping[str, Any], node: yaml.MappingNode, converter: Converter) -> None:
    for key in ("name", "project", "domain", "version"):
        if key not in frame:
            continue
        try:
            check_name(key, frame[key])
        except InvalidInput as error:
            converter.note_at(key, error.message.rstrip("."))
    if "name" not in converter.positions:
        converter.note(node, "lacks name: what is it called?")


def _inputs(node: yaml.Node | None, converter: Converter) -> dict[str, Any]:
    """Inputs by name, each as its type wants it."""
    parts = node.value if isinstance(node, yaml.MappingNode) else []
    inputs = {
        key.value: converter.value(part, input_schema(part), f"inputs.{key.value}")
        for key, part in parts
        if isinstance(key, yaml.ScalarNode)
    }
    return {name: value for name, value in inputs.items() if value is not BAD}


_SAME = (
    ("security_context", "kube_service_acct"),
    ("security_context", "iam_role_arn"),
    ("security_context", "auth_role"),
    ("auth_role", "kube_service_acct"),
    ("auth_role", "iam_role_arn"),
    ("raw_output_data_config", "output_location_prefix"),
)


def _check_launch_plan(values: Mapping[str, Any], node: yaml.MappingNode, converter: Converter) -> None:
    if "workflow" not in converter.positions:
        converter.note(node, "lacks workflow: what does the launch plan launch?")
    pairs = [*_SAME]
    if isinstance(values.get("workflow"), dict) and "version" in values["workflow"]:
        pairs.append(("workflow", "workflow_version"))
    converter.note_same(values, pairs)


def _workflow(values: Mapping[str, Any]) -> dict[str, str]:
    named = values.get("workflow") or {}
    workflow = dict(named) if isinstance(named, dict) else {"name": str(named)}
    if values.get("workflow_version"):
        workflow["version"] = values["workflow_version"]
    if workflow.get("version") == LATEST:
        del workflow["version"]
    return workflow
