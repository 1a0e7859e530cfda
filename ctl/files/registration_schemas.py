"""
The schemas of documents of workflows and launch plans.

Some depend on the document: labels may be plain or wrapped, and the default of an input follows its type.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from ctl.client.calls.registrations import WORKFLOW
from ctl.client.facts import INPUT_TYPES, SCHEMAS
from ctl.client.kinds import Schema, built_in
from ctl.client.words import fold
from ctl.files.conversion import child_node, plain_or_wrapped
from ctl.files.retries import RETRY_SCHEMA
from ctl.files.run_settings import AUTH_ROLE_SCHEMA, TOKEN_POOLS_SCHEMA

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

#: The keys that documents of both nouns have.
FRAME: Mapping[str, Schema] = dict.fromkeys(("kind", "project", "domain", "name", "version", "description"), _TEXT)
_WORKFLOW_ID: Schema = {
    "type": "object",
    "properties": dict.fromkeys(("name", "version", "project", "domain"), _TEXT),
    "required": ["name"],
}


def document_properties(node: yaml.MappingNode, noun: str) -> dict[str, Schema]:
    """The schema of each key that a document of a workflow or launch plan may have."""
    if noun == WORKFLOW:
        return {**FRAME, "inputs": _ANY_MAP, "job": SCHEMAS["job"]}
    config = _schema_of("WORKFLOW_EXECUTION_CONFIG")["properties"]
    urgency = _schema_of("QUALITY_OF_SERVICE_SPECIFICATION")
    workflow = child_node(node, "workflow")
    service = child_node(node, "qualityofservice")
    return {
        **FRAME,
        "workflow": _WORKFLOW_ID if isinstance(workflow, yaml.MappingNode) else _TEXT,
        "workflow_version": _TEXT,
        "default_inputs": _ANY_MAP,
        "fixed_inputs": _ANY_MAP,
        "cluster_pool": _TEXT,
        "execution_cluster_label": _TEXT,
        **{key: plain_or_wrapped(child_node(node, key), config[key]) for key in ("labels", "annotations", "envs")},
        "kube_service_acct": _TEXT,
        "iam_role_arn": _TEXT,
        "security_context": config["security_context"],
        "auth_role": AUTH_ROLE_SCHEMA,
        "max_parallelism": config["max_parallelism"],
        "interruptible": config["interruptible"],
        "overwrite_cache": config["overwrite_cache"],
        "raw_output_data_config": config["raw_output_data_config"],
        "output_location_prefix": _TEXT,
        "quality_of_service": urgency if isinstance(service, yaml.MappingNode) else urgency["properties"]["tier"],
        "retry": RETRY_SCHEMA,
        "token_pools": TOKEN_POOLS_SCHEMA,
        "active": {"type": "boolean"},
    }


def _schema_of(kind_name: str) -> Schema:
    """The schema of a built-in kind, whose fields launch plans may hold as attributes do."""
    return next(kind.schema for kind in built_in() if kind.name == kind_name)


def input_schema(node: yaml.Node) -> Schema:
    """A type alone, or `{type, default, description, values, of}`."""
    if not isinstance(node, yaml.MappingNode):
        return _TYPE
    of = child_node(node, "of")
    return {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": _TYPE,
            "default": _default_schema(node),
            "description": _TEXT,
            "values": _TEXTS,
            **({} if of is None else {"of": input_schema(of)}),
        },
    }


def _default_schema(node: yaml.Node) -> Schema:
    """What values of an input look like whose type a node says."""
    word = child_node(node, "type") if isinstance(node, yaml.MappingNode) else node
    name = fold(word.value) if isinstance(word, yaml.ScalarNode) else ""
    if name in _VALUES:
        return _VALUES[name]
    of = child_node(node, "of") if isinstance(node, yaml.MappingNode) else None
    inner = _default_schema(of) if of is not None else {}
    if name == "list":
        return {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner or True} if name == "map" else {}
