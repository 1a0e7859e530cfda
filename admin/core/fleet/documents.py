"""Fleet documents: the fields of a cluster's, pool's and label's definition, and how one is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from admin.core import names
from admin.core.fields.branches import Section
from admin.core.fields.compounds import FreeForm, ListOf, Record
from admin.core.fields.leaves import ENTITY_NAME, Boolean, Choice, Number, Text
from admin.core.fleet import asking
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import CONSTRAINT, DEFAULT_STRATEGY
from admin.core.placement.constraints.rules import RULES, rule_problems
from admin.core.placement.scores import STRATEGIES
from admin.core.problems import Path, Problem, dotted, raise_problems, repeated
from admin.core.resources import CLUSTER_RESOURCES

_DESCRIPTION = Text(max_length=1000, description="For people.")

MEMBERS = ListOf(
    unique=False,
    max_items=10_000,
    description="Clusters and their weights; the order counts for spill.",
    item=Record(
        required=("id",),
        fields={
            "id": ENTITY_NAME,
            "weight": Number(minimum=0, maximum=1e12, description="Share of the work; 0 for none."),
        },
    ),
)
STRATEGY = Choice(words=tuple(STRATEGIES), description="How a cluster is chosen; weighted.")

CLUSTER_AUTH = Record(
    description="How engines and consoles sign in.",
    fields={"type": Text(), "token_path": Text(), "cert_path": Text()},
)

DEFINITIONS: Mapping[FleetKind, Section] = {
    FleetKind.CLUSTER: Section(
        fields={
            "endpoint": Text(max_length=2048, description="Where engines and consoles reach the cluster."),
            "auth": CLUSTER_AUTH,
            "enabled": Boolean(description="Whether it takes part at all; true."),
            "cost": Number(minimum=0, maximum=1e12, description="Price of its work, in any unit, for `cheapest`."),
            "capacity": CLUSTER_RESOURCES,
            "cluster_resources": Boolean(
                description="Whether its agent makes the namespaces of projects from templates; false."
            ),
            "properties": FreeForm(description="Anything else worth knowing."),
            "description": _DESCRIPTION,
        }
    ),
    FleetKind.POOL: Section(
        fields={
            "members": MEMBERS,
            "strategy": STRATEGY,
            "rules": RULES,
            **asking.FIELDS,
            "description": _DESCRIPTION,
        }
    ),
    FleetKind.LABEL: Section(fields={"members": MEMBERS, "description": _DESCRIPTION}),
}


def read_definition(kind: FleetKind, name: str, payload: Any) -> dict[str, Any]:
    """A definition in its normal form; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal: dict[str, Any] = DEFINITIONS[kind].read(payload, (), problems)
    if not names.is_entity_name(name):
        problems.append(Problem(field="name", reason=f"is not a {kind.noun}'s name: use {names.ENTITY_NAME_RULE}."))
    if kind is not FleetKind.CLUSTER:
        problems += _group_problems(kind, normal.get("members"), problems)
        problems += strategy_problems(normal, ("rules",), problems)
    if kind is FleetKind.POOL and not problems:
        problems += [Problem(field=name, reason=reason) for name, reason in asking.asking_problems(normal).items()]
    raise_problems(problems)
    normal = {key: value for key, value in normal.items() if value is not None}
    if kind is not FleetKind.CLUSTER:
        normal["members"] = [{"id": member["id"], "weight": member.get("weight", 1)} for member in normal["members"]]
    return normal


def in_terms_of(kind: FleetKind, stored: Mapping[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """A definition that names the default strategy of a pool, or leaves it out, as the stored one does."""
    strategies = {definition.get("strategy", DEFAULT_STRATEGY) for definition in (stored, payload)}
    if kind is not FleetKind.POOL or strategies != {DEFAULT_STRATEGY}:
        return payload
    rest = {name: value for name, value in payload.items() if name != "strategy"}
    return {**rest, **({"strategy": DEFAULT_STRATEGY} if "strategy" in stored else {})}


def _group_problems(kind: FleetKind, members: list[Any] | None, field_problems: list[Problem]) -> list[Problem]:
    """Problems of a pool's or label's members beyond the known ones of each field."""
    if members is not None:
        return list(member_problems([member or {} for member in members], ("members",)))
    if any(problem.field == "members" for problem in field_problems):
        return []
    return [Problem(field="members", reason=f"is missing: a {kind.noun} is a list of clusters.")]


def strategy_problems(given: Mapping[str, Any], path: Path, known: Sequence[Problem] = ()) -> Iterator[Problem]:
    """Problems of a strategy and its rules, which stand at a path, beyond the `known` ones of each field."""
    rules, strategy, field = given.get("rules"), given.get("strategy"), dotted(path)
    if any(problem.field == field or problem.field.startswith(f"{field}.") for problem in known):
        return
    if rules is None:
        if strategy == CONSTRAINT:
            yield Problem(field=field, reason=f"is missing: the strategy {CONSTRAINT} goes by rules.")
    elif strategy != CONSTRAINT:
        yield Problem(field=field, reason=f"is for the strategy {CONSTRAINT}: say `strategy: {CONSTRAINT}` too.")
    else:
        yield from rule_problems(rules, path)


def member_problems(members: list[dict[str, Any]], path: Path) -> Iterator[Problem]:
    """Problems of a member list: a cluster listed twice, no weight above zero."""
    field = ".".join(path)
    for cluster in repeated(member["id"] for member in members if "id" in member):
        yield Problem(field=field, reason=f"the cluster '{cluster}' is listed twice.")
    if not any(member.get("weight", 1) for member in members):
        yield Problem(field=field, reason="every weight is 0: nothing could ever be chosen.")
