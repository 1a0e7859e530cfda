"""
Execution files: what `--execFile` and `--jobspec` read.

An execution file holds one document, or any number of them with `---` between two, or a list of them in JSON.
"""

from __future__ import annotations

from typing import Any

import yaml

from ctl.client.errors import InvalidInput
from ctl.client.kinds import Schema
from ctl.client.words import fold, snake_case
from ctl.client.yaml_files import Problem, Source, compose_mapping, read_source
from ctl.files.attributes import parse_flow
from ctl.files.conversion import Converter
from ctl.files.execution_documents import RUN_KEYS, ExecutionDocument
from ctl.files.positions import start_of
from ctl.files.readings import MAX_BYTES, DocumentReader
from ctl.files.retries import RETRY_SCHEMA
from ctl.files.rules import RULES_SCHEMA, STRATEGIES
from ctl.files.run_settings import AUTH_ROLE_SCHEMA, REFUSED, TOKEN_POOLS_SCHEMA

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_ANYTHING: Schema = {}

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
        "name": _TEXT,
        "principal": _TEXT,
        "launchplan": _TEXT,
        "job": _ANYTHING,
        "jobspec": _ANYTHING,
        "executionClusterLabel": _TEXT,
        "cluster": _TEXT,
        "strategy": {"type": "string", "enum": STRATEGIES},
        "rules": RULES_SCHEMA,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "interruptible": {"type": "boolean"},
        "maxParallelism": {"type": "integer", "minimum": 0},
        "outputLocationPrefix": _TEXT,
        "qualityOfService": _ANYTHING,
        "securityContext": _ANYTHING,
        "authRole": AUTH_ROLE_SCHEMA,
        "executionEnvAssignments": _ANYTHING,
        "retry": RETRY_SCHEMA,
        "tokenPools": TOKEN_POOLS_SCHEMA,
    }
}
_ON_COMMAND_LINE = ("dryRun", "relaunch", "recover", "execFile")
_REFUSED = REFUSED | {fold(key): f"belongs on the command line: use --{key}" for key in _ON_COMMAND_LINE}
#: Pairs of keys for the same thing.
_SAME = (
    ("targetExecutionCluster", "executionClusterLabel"),
    ("securityContext", "kubeServiceAcct"),
    ("securityContext", "iamRoleARN"),
    ("securityContext", "authRole"),
    ("authRole", "kubeServiceAcct"),
    ("authRole", "iamRoleARN"),
)
_MAPPINGS = ("inputs", "job", "jobspec", "qualityOfService", "securityContext")


def read_execution_files(path: str) -> list[ExecutionDocument]:
    """Read and check every document of a file for `--execFile`; every problem is reported at once."""
    return parse_execution_files(read_source(path, MAX_BYTES))


def parse_execution_files(source: Source) -> list[ExecutionDocument]:
    """As `read_execution_files`, from text."""
    return DocumentReader(_convert).parse(source)


def _convert(node: yaml.MappingNode, name: str) -> tuple[ExecutionDocument, list[Problem]]:
    converter = Converter()
    read = converter.mapping(node, FILE_SCHEMA, refused=_REFUSED)
    # flytectl generates files with empty texts for what is not set.
    values = {key: value for key, value in read.items() if value != ""}
    named = [key for key in RUN_KEYS if key in values]
    for key in named[1:]:
        converter.note_at(key, f"{named[0]} is already given: keep one of the two")
    if "version" in values and named and named[0] in {"job", "jobspec"}:
        converter.note_at("version", f"a {named[0]} has no version: remove it")
    converter.note_same(values, _SAME)
    for key in _MAPPINGS:
        if key in values and not isinstance(values[key], dict):
            converter.note_at(key, "must hold keys and values")
    document = ExecutionDocument(
        name=name,
        values={snake_case(key): value for key, value in values.items()},
        positions={_with_snake_key(path): position for path, position in converter.positions.items()},
        place=start_of(node, name),
    )
    return document, converter.problems


def _with_snake_key(path: str) -> str:
    key, dot, rest = path.partition(".")
    return f"{snake_case(key)}{dot}{rest}"


def read_jobspec(path: str) -> ExecutionDocument:
    """A jobspec, whose form is for the admin to judge."""
    source = read_source(path)
    node, problems = compose_mapping(source)
    converter = Converter()
    document = converter.value(node, _ANYTHING, "jobspec")
    if problems + converter.problems:
        raise source.refuse(problems + converter.problems)
    place = start_of(node, source.name)
    return ExecutionDocument(name=source.name, values={"jobspec": document}, positions=converter.positions, place=place)


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
