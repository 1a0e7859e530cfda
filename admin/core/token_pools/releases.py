"""Releases: who may give tokens back. The name of a token is no secret, so it alone does not prove who holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from admin.core.changes import ANONYMOUS
from admin.core.problems import Problem, invalid, raise_problems
from admin.core.token_pools.answers import NotHeld
from admin.core.token_pools.grants import Grant, Release
from admin.core.token_pools.lines import Waiter


def check_release(release: Release, user: str, grants: Sequence[Grant], waiters: Sequence[Waiter]) -> Release | NotHeld:
    """What a user may give back of the grants of a token; Invalid without their number, or by other amounts.

    It is bound to the numbers of these grants, so that nothing is given back that is granted later.
    """
    if release.force:
        return release
    if not grants:
        is_of_others = any(waiter.holder != user for waiter in waiters)
        return NotHeld(pools=release.pools) if is_of_others else replace(release, number=release.number or 0)
    is_known = user not in ("", ANONYMOUS)
    numbers = {grant.number for grant in grants}
    if release.number is None and not (is_known and all(grant.holder == user for grant in grants)):
        who = "" if is_known else ", and this request is no user's"
        reason = f"is missing: give the number of the grant. Only the user who allocated may leave it out{who}."
        raise invalid("number", reason)
    if release.number is None or numbers == {release.number}:
        raise_problems(
            [
                Problem(
                    field=f"pools.{grant.pool}",
                    reason=f"{release.amounts[grant.pool]} is not what is held: give back all {grant.amount}.",
                )
                for grant in grants
                if release.amounts is not None and release.amounts[grant.pool] != grant.amount
            ]
        )
    number = min(numbers) if len(numbers) == 1 else None
    return replace(release, number=number if release.number is None else release.number)
