"""Parts of bodies that the core reads, as the OpenAPI document describes each under a name."""

from __future__ import annotations

from admin.core import users
from admin.core.executions.spec import EXECUTION_SPEC
from admin.core.fields.branches import Section
from admin.core.fields.leaves import Schema
from admin.core.fleet.clusters import REPORT
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import DEFINITIONS
from admin.core.registrations import LAUNCH_PLAN_SPEC, WORKFLOW_SPEC


def definition_name(noun: str) -> str:
    """The name under which the definition of a cluster, pool, label or user is described."""
    return f"{noun.title()}Definition"


def _definition(definition: Section) -> Schema:
    schema = definition.schema()
    name = {"type": "string", "description": "May be left out where the path has it."}
    return {**schema, "properties": {"name": name, **schema["properties"]}}


COMPONENTS: dict[str, Schema] = {
    "ExecutionSpec": EXECUTION_SPEC.schema(),
    "WorkflowSpec": WORKFLOW_SPEC.schema(),
    "LaunchPlanSpec": LAUNCH_PLAN_SPEC.schema(),
    "ClusterReport": REPORT.schema(),
    **{definition_name(kind.noun): _definition(DEFINITIONS[kind]) for kind in FleetKind},
    definition_name(users.USER): _definition(users.DEFINITION),
}
