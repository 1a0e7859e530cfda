"""Documents by which holders ask for tokens, renew and give them back, as requests have them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from admin.core import names
from admin.core.fields.branches import MapOf, Section
from admin.core.fields.leaves import DNS_LABEL, ENTITY_NAME, Boolean, Datetime, Field, Integer, Number, Text
from admin.core.problems import Problem, raise_problems
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import Scope
from admin.core.token_pools.claims import EXECUTION_PREFIX, Claim
from admin.core.token_pools.definitions import CAPS, Caps, tokens_field
from admin.core.token_pools.grants import Release, Renewal

#: The shortest and the longest lease of tokens.
SHORTEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS = 1.0, 86_400.0
#: How long one may stand in line without asking again, for tokens may be kept for one who died that long.
LONGEST_WAIT_SECONDS = 60.0
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
#: What a job needs while it runs; 0 takes back what a broader statement asks for.
NEEDS = replace(
    AMOUNTS,
    value=tokens_field("How many tokens; 0 for none.", minimum=0),
    description="How many tokens of which pools it holds while it runs.",
)
_LEASE = Number(
    minimum=SHORTEST_LEASE_SECONDS,
    maximum=LONGEST_LEASE_SECONDS,
    nullable=False,
    description="How long they are held without being renewed.",
)
_OF_BOTH: dict[str, Field] = {
    "token": Text(max_length=255, nullable=False, description="Names the claim; the same one asks again."),
    "pools": AMOUNTS,
    "project": _name(DNS_LABEL, "Whose tokens they are."),
    "domain": _name(DNS_LABEL, "The domain of that project."),
    "workflow": _name(ENTITY_NAME, "The workflow that needs them."),
    "launch_plan": _name(ENTITY_NAME, "The launch plan that needs them."),
    "execution": _name(ENTITY_NAME, "The execution that needs them."),
    "lease_seconds": _LEASE,
}
CLAIM = Section(
    is_inherited=False,
    fields={
        **_OF_BOTH,
        "constraints": CAPS,
        "priority": Integer(minimum=-1000, maximum=1000, nullable=False, description="The larger is served first."),
        "wait_seconds": Number(
            minimum=0.0,
            maximum=LONGEST_WAIT_SECONDS,
            nullable=False,
            description="How long it stays in line without asking again; 0 leaves the line.",
        ),
    },
)
#: What one holds, to renew it or to give it back.
HOLDING = Section(
    is_inherited=False,
    fields={
        **_OF_BOTH,
        "lease_seconds": replace(_LEASE, description="The lease as it was granted, which a renewal does not change."),
        "number": Integer(minimum=0, nullable=False, description="The number of the grant; an old one is refused."),
        "expires_at": Datetime(nullable=False, description="The end of the lease, as it was told last."),
        "force": Boolean(
            nullable=False, description="Of a release: whoever holds it, also an execution; needs token_pools.write."
        ),
    },
)


def read_claim(document: Any) -> Claim:
    """A claim from a request; Invalid with every problem in it."""
    normal = _read(CLAIM, document)
    known = {field: normal[field] for field in ("priority", "lease_seconds", "wait_seconds") if field in normal}
    return Claim(
        token=normal["token"],
        amounts=normal["pools"],
        place=_place(normal),
        execution=normal.get("execution", ""),
        constraints=Caps(**normal.get("constraints", {})),
        **known,
    )


def read_renewal(document: Any) -> Renewal:
    """A renewal from a request; Invalid with every problem in it."""
    normal = _read(HOLDING, document, ("number", "give the number of the grant"))
    expires_at = normal.get("expires_at")
    return Renewal(
        token=normal["token"],
        amounts=normal["pools"],
        number=normal["number"],
        place=_place(normal),
        execution=normal.get("execution", ""),
        lease_seconds=normal.get("lease_seconds", Renewal.lease_seconds),
        expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
    )


def read_release(document: Any) -> Release:
    """What is given back, from a request; Invalid with every problem in it."""
    normal = _read(HOLDING, document)
    return Release(
        token=normal["token"],
        pools=tuple(sorted(normal["pools"])),
        number=normal.get("number"),
        place=_place(normal),
        amounts=normal["pools"],
        force=normal.get("force", False),
    )


def _read(section: Section, document: Any, *needed: tuple[str, str]) -> Payload:
    problems: list[Problem] = []
    normal: Payload = section.read(document, (), problems)
    if not problems:
        of_all = (("token", "give a text that names the claim"), ("pools", "give at least one pool"))
        problems += [
            Problem(field=field, reason=f"is missing: {reason}.")
            for field, reason in (*of_all, *needed)
            if normal.get(field) in (None, {})
        ]
        problems += _place_problems(_place(normal), normal.get("execution", ""))
        if normal.get("token", "").startswith(EXECUTION_PREFIX) and not normal.get("force"):
            reason = f"Tokens that start with '{EXECUTION_PREFIX}' are held by executions alone: choose another name."
            problems.append(Problem(field="token", reason=reason))
    raise_problems(problems)
    return normal


def _place(normal: Payload) -> Scope:
    return Scope(**{key: normal.get(key, "") for key in Scope._fields})


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
