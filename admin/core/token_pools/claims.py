"""Claims: what a holder asks of token pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from admin.core import names
from admin.core.fields.branches import MapOf, Section
from admin.core.fields.leaves import DNS_LABEL, ENTITY_NAME, Integer, Number, Text
from admin.core.problems import Problem, raise_problems
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.definitions import CAPS, NO_CAPS, Caps, tokens_field

#: The shortest and the longest lease of tokens.
SHORTEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS = 1.0, 86_400.0
#: How long one may stand in line without asking again.
LONGEST_WAIT_SECONDS = 3600.0
_MOST_POOLS = 64


def _name(field: Text, description: str) -> Text:
    return replace(field, nullable=False, description=description)


AMOUNTS = MapOf(
    is_inherited=False,
    key_pattern=names.ENTITY_NAME,
    key_rule=names.ENTITY_NAME_RULE,
    value=tokens_field("How many tokens.", minimum=1),
    max_entries=_MOST_POOLS,
    description="How many tokens of which pools; all are granted, or none.",
)
CLAIM = Section(
    is_inherited=False,
    fields={
        "token": Text(max_length=255, nullable=False, description="Names the claim; the same one asks again."),
        "pools": AMOUNTS,
        "project": _name(DNS_LABEL, "Whose tokens they are."),
        "domain": _name(DNS_LABEL, "The domain of that project."),
        "workflow": _name(ENTITY_NAME, "The workflow that needs them."),
        "launch_plan": _name(ENTITY_NAME, "The launch plan that needs them."),
        "execution": _name(ENTITY_NAME, "The execution that needs them."),
        "constraints": CAPS,
        "priority": Integer(minimum=-1000, maximum=1000, nullable=False, description="The larger is served first."),
        "lease_seconds": Number(
            minimum=SHORTEST_LEASE_SECONDS,
            maximum=LONGEST_LEASE_SECONDS,
            nullable=False,
            description="How long they are held without being renewed.",
        ),
        "wait_seconds": Number(
            minimum=0.0,
            maximum=LONGEST_WAIT_SECONDS,
            nullable=False,
            description="How long it stays in line without asking again; 0 leaves the line.",
        ),
    },
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a holder asks for: tokens of pools, all or none."""

    token: str  #: names it: asking again with the same one gets the same answer
    amounts: Mapping[str, int]  #: by pool
    place: Scope = PLATFORM
    execution: str = ""
    holder: str = ""  #: who asks, for people
    constraints: Caps = NO_CAPS
    priority: int = 0
    weight: float = 1.0  #: of the project, by which its share is compared with those of others
    lease_seconds: float = 60.0
    wait_seconds: float = 0.0  #: how long it stays in line without asking again


def read_claim(document: Any) -> Claim:
    """A claim from a request; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = CLAIM.read(document, (), problems)
    if not problems:
        for field, reason in (("token", "give a text that names the claim"), ("pools", "give at least one pool")):
            if not normal.get(field):
                problems.append(Problem(field=field, reason=f"is missing: {reason}."))
        place = Scope(**{key: normal.get(key, "") for key in Scope._fields})
        problems += _place_problems(place, normal.get("execution", ""))
    raise_problems(problems)
    known = {field: normal[field] for field in ("priority", "lease_seconds", "wait_seconds") if field in normal}
    return Claim(
        token=normal["token"],
        amounts=normal["pools"],
        place=place,
        execution=normal.get("execution", ""),
        constraints=Caps(**normal.get("constraints", {})),
        **known,
    )


def _place_problems(place: Scope, execution: str) -> list[Problem]:
    """What is missing of a place: a workflow belongs to a project and domain, and so does an execution."""
    needs = {
        "domain": (place.domain, ("project",)),
        "execution": (execution, ("project", "domain")),
        "workflow": (place.workflow, ("project", "domain")),
        "launch_plan": (place.launch_plan, ("project", "domain", "workflow")),
    }
    missing = {
        key: field for field, (value, keys) in needs.items() for key in keys if value and not getattr(place, key)
    }
    return [Problem(field=key, reason=f"is missing: give it together with {field}.") for key, field in missing.items()]
