"""Tokens of executions: what a run needs of token pools, how it asks for them, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from admin.core.executions.launches import Launch, Rules
from admin.core.executions.queues import TIERS
from admin.core.json_text import json_string, json_value
from admin.core.problems import Problem, closest, did_you_mean, raise_problems
from admin.core.token_pools.answers import Allocation, Conflict, Exhausted, Full, Granted, NeverFits, UnknownPools
from admin.core.token_pools.claims import EXECUTION_PREFIX
from admin.core.token_pools.limits import POOL, Terms, describe_too_small, never_fits

#: The reason of an execution whose cluster has room, and which waits for tokens.
WAITING_FOR_TOKENS = "WAITING_FOR_TOKENS"
#: The variable by which a job is told the number of its grant, which fences off earlier holders.
NUMBER_VARIABLE = "RAINBOW_TOKEN_NUMBER"
#: A tier counts more than any priority within one; both fit into 32 bits.
_TIER_STEP, _LARGEST_PRIORITY = 10**6, 4 * 10**5
#: The priority of an execution that has none, which is that of a claim that has none.
_USUAL_PRIORITY = 50


def attempt_token(uid: str, attempt: int) -> str:
    """By what name an attempt of an execution holds tokens."""
    return f"{EXECUTION_PREFIX}{uid}/{attempt}"


def write_amounts(amounts: Mapping[str, int]) -> str | None:
    """What a run needs, as it is stored; the same amounts give the same text."""
    return json_string(dict(sorted(amounts.items()))) if amounts else None


def read_amounts(text: str | None) -> dict[str, int]:
    """What `write_amounts` made."""
    return {} if text is None else json_value(text)


def needed_amounts(*layers: Mapping[str, int] | None) -> dict[str, int]:
    """The amounts that statements come to, the most specific one last; of each pool that counts, and 0 is none."""
    amounts = {pool: amount for layer in layers for pool, amount in (layer or {}).items()}
    return {pool: amount for pool, amount in sorted(amounts.items()) if amount}


def source_of(launch: Launch, rules: Rules, job: Mapping[str, Any]) -> Callable[[str], str]:
    """Where the amount of a pool was given, for problems."""

    def find(pool: str) -> str:
        if pool in (launch.request.get("token_pools") or {}):
            return f"spec.token_pools.{pool}"
        if pool in (launch.definition.get("token_pools") or {}):
            return f"token_pools.{pool} of the launch plan"
        if pool in (launch.job.get("token_pools") or {}):
            return f"{launch.job_path}.token_pools.{pool}"
        return f"resourcemanager.taskTypes.{job['task_type']}.{pool} of the configuration"

    return find


def check_amounts(
    amounts: Mapping[str, int], terms: Mapping[str, Terms], names: Iterable[str], field_of: Callable[[str], str]
) -> None:
    """Refuse amounts of unknown pools, and those that could never fit."""
    problems = []
    for pool, amount in sorted(amounts.items()):
        if pool not in terms:
            near = closest(pool, list(names))
            reason = f"There is no token pool '{pool}'.{did_you_mean(near)} Define it, or ask for another."
            problems.append(Problem(field=field_of(pool), reason=reason, closest=near))
        elif limit := never_fits(pool, amount, terms[pool]):
            problems.append(Problem(field=field_of(pool), reason=describe_too_small(limit, amount)))
    raise_problems(problems)


def line_priority(tier: int, priority: int) -> int:
    """The priority of an execution among all that wait for tokens: by its tier, then by its own priority."""
    own = max(-_LARGEST_PRIORITY, min(priority - _USUAL_PRIORITY, _LARGEST_PRIORITY))
    return (len(TIERS) - 1 - tier) * _TIER_STEP + own


def lease_job(job: Mapping[str, Any], number: int | None) -> Mapping[str, Any]:
    """A job as an agent gets it: with the number of its grant in the environment, where it holds tokens."""
    if number is None:
        return job
    return {**job, "environment": {**job.get("environment", {}), NUMBER_VARIABLE: str(number)}}


def describe_amounts(amounts: Mapping[str, int]) -> str:
    """`1 token of hive, 2 of licences`."""
    (pool, amount), *others = sorted(amounts.items())
    first = f"{amount} {'token' if amount == 1 else 'tokens'} of {pool}"
    return ", ".join([first, *(f"{amount} of {pool}" for pool, amount in others)])


def describe_refusal(answer: Allocation, amounts: Mapping[str, int]) -> str:
    """Why a run does not get its tokens, without what changes all the time; for everybody, so without names."""
    match answer:
        case UnknownPools():
            return f"There is no token pool '{answer.pools[0]}' any more: define it again, or end the execution."
        case NeverFits():
            return (
                f"{answer.amount} of token pool '{answer.pool}' can never fit: the most is {answer.limit.cap}, by "
                f"{answer.limit.origin}. Raise that, or end the execution."
            )
        case Exhausted(full=(full, *_)):
            return f"It waits for {_of_pool(full)}: {describe_level(full)}, by {full.limit.origin}."
        case Exhausted():
            return f"It waits for {describe_amounts(amounts)}. {answer.reason}"
        case Conflict() | Granted():
            return f"It waits for {describe_amounts(amounts)}."


def describe_reclaim(amounts: Mapping[str, int], silent_cluster: str | None) -> str:
    """That the tokens of a run are no longer its own, and where it may still be running while nobody hears of it."""
    silence = "" if silent_cluster is None else f" while '{silent_cluster}' was silent"
    back = f"{describe_amounts(amounts)} came back for others"
    return f"Its lease was over{silence}, and {back}. It may still be running."


def describe_loss(amounts: Mapping[str, int]) -> str:
    """That a run whose lease goes on no longer holds its tokens."""
    return f"It no longer holds {describe_amounts(amounts)}: released by force, or lost by Redis. It goes on without."


def _of_pool(full: Full) -> str:
    return f"{full.amount} {'token' if full.amount == 1 else 'tokens'} of pool '{full.pool}'"


def describe_level(full: Full) -> str:
    """Which level is full: `the pool is full`, or `its project has too few free` for more than one token.

    It stays the same while others come and go.
    """
    level = "the pool" if full.limit.level == POOL else f"its {full.limit.level}"
    if full.promised:
        return f"what is free of {level} is kept for those ahead in line"
    return f"{level} is full" if full.amount == 1 else f"{level} has too few free"
