"""Permissions: what one may do, where each is looked for, and the roles that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from admin.core.problems import Problem, closest, did_you_mean, raise_problems, unknown_problem


class Place(Enum):
    """Where one must have a permission."""

    SCOPE = "at the scope"  # of what is read or written
    ANYWHERE = "at any scope"  # what belongs to no scope, and whoever works somewhere must know
    PLATFORM = "on the platform"  # what belongs to no scope


@dataclass(frozen=True, kw_only=True)
class Permission:
    """One thing that one may do."""

    name: str  #: noun.verb
    description: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Role:
    """A named set of permissions."""

    name: str
    description: str
    permissions: frozenset[str]


def _permission(name: str, description: str, place: Place = Place.SCOPE) -> Permission:
    return Permission(name=name, description=description, place=place)


PERMISSIONS: Mapping[str, Permission] = MappingProxyType(
    {
        permission.name: permission
        for permission in (
            _permission("attributes.read", "read attributes, effective values, their history and warnings"),
            _permission("attributes.write", "set and delete attributes other than quotas"),
            _permission("quotas.write", "set and delete quotas of token pools and executions"),
            _permission("projects.read", "read projects"),
            _permission("projects.write", "create, change and archive projects"),
            _permission("workflows.read", "read workflows and launch plans"),
            _permission("workflows.write", "register workflows and launch plans, and activate them"),
            _permission("executions.read", "read executions, their events, decisions and counts"),
            _permission("executions.create", "create executions, and repeat them"),
            _permission("executions.end", "end executions"),
            _permission("executions.write", "archive executions, and decide waiting ones again"),
            _permission("executions.override", "have requests override settings where others may not"),
            _permission("logs.read", "read the logs and outputs of executions"),
            _permission("fleet.read", "read clusters, pools and labels", Place.ANYWHERE),
            _permission("fleet.write", "define clusters, pools and labels", Place.PLATFORM),
            _permission("token_pools.read", "read token pools, and how much of them is held", Place.ANYWHERE),
            _permission(
                "token_pools.write", "define token pools, and release by force what others hold", Place.PLATFORM
            ),
            _permission("token_pools.allocate", "hold tokens of token pools, renew and release them"),
            _permission("clusters.switch", "enable, cordon, drain and admit clusters", Place.PLATFORM),
            _permission("clusters.report", "report the state of a cluster in place of its agent", Place.PLATFORM),
            _permission("cluster_tokens.read", "list the tokens of agents", Place.PLATFORM),
            _permission("cluster_tokens.write", "make and revoke the tokens of agents", Place.PLATFORM),
            _permission("reconciliations.read", "see how far a restored database is reconciled", Place.PLATFORM),
            _permission("reconciliations.write", "count a cluster as reconciled", Place.PLATFORM),
            _permission("clock.read", "see the admin's clock", Place.PLATFORM),
            _permission("clock.write", "trust the admin's clock after it has jumped", Place.PLATFORM),
            _permission("metrics.read", "read the admin's metrics, which name clusters", Place.PLATFORM),
            _permission("configuration.read", "read the admin's configuration", Place.PLATFORM),
            _permission("users.read", "read users", Place.PLATFORM),
            _permission("users.write", "create, change and delete users", Place.PLATFORM),
            _permission("users.impersonate", "act as another user, within what one may do oneself", Place.PLATFORM),
            _permission("tokens.read", "list the tokens and sessions of other users", Place.PLATFORM),
            _permission(
                "tokens.write", "make and revoke the tokens of other users, and end their sessions", Place.PLATFORM
            ),
            _permission("groups.read", "read groups and their members", Place.PLATFORM),
            _permission("groups.write", "create, change and delete groups", Place.PLATFORM),
            _permission("grants.read", "see who may do what"),
            _permission("grants.write", "give roles within what one may do oneself, and take roles away"),
            _permission("use_grants.read", "see who may use which clusters", Place.PLATFORM),
            _permission("use_grants.write", "say who may use which clusters", Place.PLATFORM),
            _permission("audit.read", "read the audit events", Place.PLATFORM),
        )
    }
)

#: What an operation declares that needs no permission, or more than one.
OPEN = "open"
SIGNED_IN = "signed-in"
OWN_AGENT = "own-agent"
OF_EACH_ROW = "of-each-row"
#: What each of them says of an operation.
REQUIREMENTS: Mapping[str, str] = MappingProxyType(
    {
        OPEN: "Needs no token.",
        SIGNED_IN: "Needs no permission: everyone may do this who may call at all.",
        OWN_AGENT: "Needs the token of the cluster's own agent.",
        OF_EACH_ROW: "Needs, for each row, the permission to write it.",
    }
)


#: The nouns whose permission to read has another noun.
_READ_AS = {"clusters": "fleet", "logs": "executions", "quotas": "attributes"}


def reading(permission: str) -> str:
    """The permission to read what another one is about."""
    noun = permission.partition(".")[0]
    return f"{_READ_AS.get(noun, noun)}.read"


def check_requirement(requirement: str) -> str:
    """What an operation declares; ValueError for a permission that does not exist."""
    known = [*PERMISSIONS, *REQUIREMENTS]
    if requirement not in known:
        raise ValueError(f"there is no permission '{requirement}'.{did_you_mean(closest(requirement, known))}")
    return requirement


def describe_requirement(requirement: str) -> str:
    """What an operation needs, as a sentence."""
    permission = PERMISSIONS.get(requirement)
    if permission is None:
        return REQUIREMENTS[requirement]
    where = "" if permission.place is Place.SCOPE else f" {permission.place.value}"
    return f"Needs the permission `{permission.name}`{where}: {permission.description}."


def _role(name: str, description: str, permissions: Iterable[str]) -> Role:
    return Role(name=name, description=description, permissions=frozenset(permissions))


_VIEWER = frozenset(
    {
        *("attributes.read", "projects.read", "workflows.read", "executions.read", "logs.read", "fleet.read"),
        *("metrics.read", "token_pools.read"),
    }
)
_SUBMITTER = _VIEWER | {"executions.create", "executions.end", "executions.write", "token_pools.allocate"}
_EDITOR = _SUBMITTER | {"attributes.write", "projects.write", "workflows.write"}
_OPERATOR = _VIEWER | {
    *("executions.end", "executions.write", "fleet.write", "clusters.switch", "clusters.report"),
    *("token_pools.write", "token_pools.allocate", "quotas.write"),
    *("cluster_tokens.read", "cluster_tokens.write", "reconciliations.read", "reconciliations.write"),
    *("clock.read", "clock.write", "configuration.read", "use_grants.read", "use_grants.write"),
}

#: The role that may do everything.
ADMIN = "admin"
#: The roles that every admin has, the fewest permissions first.
ROLES: Mapping[str, Role] = MappingProxyType(
    {
        role.name: role
        for role in (
            _role("viewer", "sees everything but who may do what", _VIEWER),
            _role("submitter", "a viewer who also runs executions and ends them", _SUBMITTER),
            _role("editor", "a submitter who also changes settings, projects and workflows", _EDITOR),
            _role(
                "operator",
                "a viewer who also runs the clusters and token pools, sets quotas and ends executions",
                _OPERATOR,
            ),
            _role(ADMIN, "may do everything, also give roles to others", PERMISSIONS),
        )
    }
)


def all_roles(declared: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Role]:
    """The built-in roles, and those of configuration; Invalid with every problem."""
    problems: list[Problem] = []
    for name, role in declared.items():
        if name in ROLES:
            reason = "is built in and cannot be declared again: choose another name."
            problems.append(Problem(field=f"roles.{name}", reason=reason))
        for permission in role["permissions"]:
            if permission not in PERMISSIONS:
                field = f"roles.{name}.permissions"
                problems.append(unknown_problem(field, "permission", permission, PERMISSIONS, most=len(PERMISSIONS)))
    raise_problems(problems)
    own = {name: _role(name, role.get("description", ""), role["permissions"]) for name, role in declared.items()}
    return MappingProxyType({**ROLES, **own})
