"""Parts of bodies that the core reads, as the OpenAPI document describes each under a name."""

from __future__ import annotations

from admin.core import cluster_groups, grants, use_grants, user_groups, users
from admin.core.executions.spec import EXECUTION_SPEC
from admin.core.fields.branches import Section
from admin.core.fields.leaves import Schema
from admin.core.fleet.clusters import REPORT
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import DEFINITIONS
from admin.core.placement.bid_reports import BID_REPORT
from admin.core.registrations import LAUNCH_PLAN_SPEC, WORKFLOW_SPEC
from admin.core.token_pools import definitions as token_pools
from admin.core.token_pools.documents import CLAIM, HOLDING


def definition_name(noun: str) -> str:
    """The name under which the definition of something with a name is described."""
    return f"{camel_title(noun)}Definition"


def camel_title(noun: str) -> str:
    """A noun of several words as names of messages have it: `ClusterGroup`."""
    return noun.title().replace("_", "")


def _definition(section: Section, name_from: str = "where the path has it") -> Schema:
    schema = section.schema()
    name = {"type": "string", "description": f"May be left out {name_from}."}
    return {**schema, "properties": {"name": name, **schema["properties"]}}


COMPONENTS: dict[str, Schema] = {
    "ExecutionSpec": EXECUTION_SPEC.schema(),
    "WorkflowSpec": WORKFLOW_SPEC.schema(),
    "LaunchPlanSpec": LAUNCH_PLAN_SPEC.schema(),
    "ClusterReport": REPORT.schema(),
    "Bid": BID_REPORT.schema(),
    **{definition_name(kind.noun): _definition(DEFINITIONS[kind]) for kind in FleetKind},
    definition_name(users.USER): _definition(users.DEFINITION),
    definition_name("group"): _definition(user_groups.DEFINITION),
    definition_name("grant"): _definition(grants.DEFINITION, "as it follows from the rest"),
    definition_name("cluster_group"): _definition(cluster_groups.DEFINITION),
    definition_name("token_pool"): _definition(token_pools.DEFINITION),
    "TokenClaim": CLAIM.schema(),
    "TokenHolding": HOLDING.schema(),
    definition_name("use_grant"): _definition(use_grants.DEFINITION, "as it follows from the rest"),
}
