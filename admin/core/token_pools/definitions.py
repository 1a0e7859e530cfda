"""Definitions of token pools: how many tokens there are, and how many a project, namespace or execution may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from admin.core import names
from admin.core.fields.branches import Section
from admin.core.fields.leaves import Integer, Text
from admin.core.problems import Problem, invalid, raise_problems, shorten
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import Scope

#: The kind of a token pool's row.
TOKEN_POOL = "TOKEN_POOL"
#: What pools and quotas are worth where the resource manager is off.
TOKENS_OFF = "resourcemanager.type is noop: everything is granted, and nothing of it is kept."
#: The most tokens that a pool may have.
MOST_TOKENS = 10**9


def tokens_field(description: str, minimum: int = 0) -> Integer:
    """A number of tokens."""
    return Integer(minimum=minimum, maximum=MOST_TOKENS, nullable=False, description=description)


CAPS = Section(
    is_inherited=False,
    description="The most tokens that each of these may have at once; the tightest one that applies holds.",
    fields={
        "project": tokens_field("For each project."),
        "namespace": tokens_field("For each project in each domain."),
        "execution": tokens_field("For each execution."),
    },
)
DEFINITION = Section(
    fields={
        "capacity": tokens_field("How many tokens there are; 0 grants none."),
        "caps": CAPS,
        "description": Text(max_length=1000, nullable=False, description="For people."),
    }
)


@dataclass(frozen=True, kw_only=True)
class Caps:
    """The most tokens of a pool that each project, namespace and execution may have; None for no cap."""

    project: int | None = None
    namespace: int | None = None
    execution: int | None = None


NO_CAPS = Caps()


@dataclass(frozen=True, kw_only=True)
class TokenPool:
    """A token pool as it is defined."""

    name: str
    capacity: int
    caps: Caps = NO_CAPS


def read_token_pool(name: str, payload: Any) -> Payload:
    """A token pool's definition in its normal form; Invalid with every problem in it."""
    problems: list[Problem] = list(name_problems([name]))
    normal: Payload = DEFINITION.read(payload, (), problems)
    if isinstance(payload, dict) and "capacity" not in payload:
        problems.append(Problem(field="capacity", reason="is missing: give the number of tokens."))
    raise_problems(problems)
    return normal


def token_pool_of(name: str, payload: Payload) -> TokenPool:
    """A token pool from its definition in normal form."""
    return TokenPool(name=name, capacity=payload["capacity"], caps=Caps(**payload.get("caps", {})))


class LooseCap(NamedTuple):
    """A cap that never binds, for a broader bound is tighter."""

    level: str
    cap: int
    broader: str  #: the field of that bound
    bound: int


def loose_caps(pool: TokenPool) -> Iterator[LooseCap]:
    """The caps of a pool that are above its capacity, or above that of a broader level."""
    tightest = ("capacity", pool.capacity)
    for level in ("project", "namespace", "execution"):
        cap: int | None = getattr(pool.caps, level)
        if cap is not None and cap > tightest[1]:
            yield LooseCap(level, cap, *tightest)
        elif cap is not None:
            tightest = (f"caps.{level}", cap)


def loose_quota(pool: TokenPool, scope: Scope, most: int) -> LooseCap | None:
    """Why a quota of a pool at a scope never binds; None where it may."""
    bounds = [("capacity", pool.capacity, True), ("caps.project", pool.caps.project, bool(scope.project))]
    bounds.append(("caps.namespace", pool.caps.namespace, bool(scope.project and scope.domain)))
    tighter = [(bound, field) for field, bound, applies in bounds if applies and bound is not None and bound < most]
    return LooseCap(scope.level.value, most, tighter[0][1], tighter[0][0]) if tighter else None


def describe_loose_quota(pool: str, loose: LooseCap) -> str:
    """Why a quota never binds."""
    return f"A quota of {loose.cap} never binds: {loose.broader} of token pool '{pool}' is {loose.bound}."


def check_quota(before: Payload | None, after: Payload, most: int) -> None:
    """Refuse a new capacity above the most that the platform allows; one that is there already may stay."""
    capacity = after["capacity"]
    if capacity > most and (before is None or capacity > before["capacity"]):
        reason = f"{capacity} is more than {most}, which resourcemanager.resourceMaxQuota of the configuration allows."
        raise invalid("capacity", reason)


def name_problems(pools: Iterable[str], field: str = "name") -> Iterable[Problem]:
    """A problem for each name that no token pool may have."""
    return (
        Problem(field=field, reason=f"'{shorten(name)}' is not a token pool's name: use {names.ENTITY_NAME_RULE}.")
        for name in pools
        if not names.is_entity_name(name)
    )
