"""Execution quotas: which limits apply, what never fits, and what is admitted while others are."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.no_effect import tighter_above
from admin.core.executions.quotas import (
    OF_RUNNING,
    FullQuota,
    QuotaLimit,
    Tally,
    Usage,
    check_fits,
    limits_at,
    never_fitting,
    use_of,
    waiting_limits,
)
from admin.core.problems import Refused
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA, TOKEN_POOL_QUOTA
from admin.core.settings.platform import PlatformDefaults, leaves
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.limits import USUAL_WEIGHT, weight_at

DOMAIN, PROJECT = Scope("dev"), Scope("", "ads")
BOTH = Scope("dev", "ads")
FLOW = Scope("dev", "ads", "flow")
NOTHING = PlatformDefaults(EXECUTION_QUOTA, {})


def rows(by_scope: dict[Scope, dict[str, Any]], kind: str = EXECUTION_QUOTA.name) -> dict[Scope, Row]:
    return {
        scope: Row(kind=kind, scope=scope, payload=payload, version=number)
        for number, (scope, payload) in enumerate(by_scope.items(), 1)
    }


def test_every_row_on_the_way_bounds_the_broadest_first() -> None:
    stored = rows({BOTH: {"running": 9}, DOMAIN: {"running": 3, "cpu": "1500m"}, Scope("prod"): {"running": 0}})
    assert limits_at(FLOW, stored, NOTHING) == (
        QuotaLimit(DOMAIN, "running", 3, 2),
        QuotaLimit(DOMAIN, "cpu", 1500, 2),
        QuotaLimit(BOTH, "running", 9, 1),
    )


def test_the_platform_bounds_too() -> None:
    platform = PlatformDefaults(EXECUTION_QUOTA, leaves(EXECUTION_QUOTA, {"waiting": 5}, "execution_quota"))
    [limit] = limits_at(BOTH, {}, platform)
    assert (limit.scope, limit.most, limit.version) == (PLATFORM, 5, None)
    assert str(limit) == "waiting of the execution-quota in configuration (execution_quota.waiting)"
    assert waiting_limits([limit, QuotaLimit(DOMAIN, "running", 1)]) == (limit,)


def test_only_resources_can_never_fit_and_the_tightest_is_named() -> None:
    limits = [
        QuotaLimit(DOMAIN, "cpu", 3000, 1),
        QuotaLimit(BOTH, "cpu", 1000, 2),
        QuotaLimit(BOTH, "running", 0, 2),
        QuotaLimit(DOMAIN, "memory", 10, 1),
    ]
    assert never_fitting(limits, {"cpu": 4000, "memory": 10}) == [limits[1]]
    check_fits(limits, {"cpu": 1000, "memory": 10}, "spec.job")
    with pytest.raises(Refused) as caught:
        check_fits(limits, {"cpu": 1001, "memory": 11}, "spec.job")
    assert caught.value.error == "quota_too_small"
    assert [problem.setting and problem.setting.version for problem in caught.value.problems] == [1, 2]


def test_what_is_admitted_counts_for_the_next() -> None:
    limits = [QuotaLimit(DOMAIN, "running", 3, 1), QuotaLimit(BOTH, "cpu", 2000, 2)]
    tally = Tally({DOMAIN: Usage(running=1), BOTH: Usage(cpu=500)})
    use = use_of({"cpu": 1000}, is_running=True)
    assert tally.admit(limits, use, OF_RUNNING) is None
    full = tally.admit(limits, use, OF_RUNNING)
    assert full == FullQuota(limit=limits[1], used=1500, amount=1000)
    assert tally.admit(limits, use_of({"cpu": 500}, is_running=True), OF_RUNNING) is None
    refused = tally.admit(limits, use_of({}, is_running=True), OF_RUNNING)
    assert refused is not None
    assert (refused.limit.field, refused.used) == ("running", 3)


def test_an_execution_that_needs_none_of_a_resource_passes_a_full_one() -> None:
    limits = [QuotaLimit(BOTH, "gpu", 0, 1)]
    assert Tally({}).full(limits, use_of({"cpu": 1000}, is_running=True), OF_RUNNING) is None


def test_a_full_quota_in_words() -> None:
    full = FullQuota(limit=QuotaLimit(BOTH, "cpu", 2000, 7), used=1500, amount=1000, holders=["a", "b"], holder_count=4)
    assert full.describe("revision 7, ana, 3 h ago") == (
        "1500m of 2 cpu is used, and this needs 1, by cpu of the execution-quota at project-domain ads/dev "
        "(revision 7, ana, 3 h ago). Held by a, b and 2 more."
    )
    assert full.describe_briefly() == (
        "It needs 1 cpu, and less is free of 2, by cpu of the execution-quota at project-domain ads/dev (revision 7)."
    )


def test_the_tightest_row_is_the_value_and_all_are_used() -> None:
    stored = rows({DOMAIN: {"memory": "1Gi"}, PROJECT: {"memory": "2048Mi"}, BOTH: {"memory": "1024Mi"}})
    resolved = resolve(EXECUTION_QUOTA, BOTH, stored, NOTHING)
    assert resolved.value == {"memory": "1Gi"}
    assert resolved.origins[("memory",)].scope == DOMAIN
    assert [step.used for step in resolved.trail if step.payload] == [(("memory",),)] * 3
    assert tighter_above(EXECUTION_QUOTA, stored[BOTH], stored) == {("memory",): DOMAIN}
    assert tighter_above(EXECUTION_QUOTA, stored[PROJECT], stored) == {}


def test_the_most_specific_weight_counts_and_null_unsets_it() -> None:
    stored = rows({DOMAIN: {"weight": 2}, BOTH: {"weight": 5}, FLOW: {"weight": None}}, TOKEN_POOL_QUOTA.name)
    assert weight_at(BOTH, stored) == 5
    assert weight_at(Scope("dev", "search"), stored) == 2
    assert weight_at(FLOW, stored) == USUAL_WEIGHT
    assert resolve(TOKEN_POOL_QUOTA, FLOW, stored, PlatformDefaults(TOKEN_POOL_QUOTA, {})).value == {}
