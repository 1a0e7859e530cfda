"""Freed room: where clusters report more that is free, they are asked at once about what none of them took before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from admin.core.resources import Amounts
from admin.services.context import Context
from admin.services.definitions import latest_fleet
from admin.store import bid_rounds

#: What was free of clusters at the last look, by their names.
LastFree = dict[str, Amounts]
#: Executions that are asked about again at one look: room for one must not have thousands asked about.
_MOST = 50
#: A round is followed by another one no sooner than this.
_PAUSE_SECONDS = 1.0


def ask_for_freed_room(context: Context, last_free: LastFree) -> int:
    """Have clusters asked before their pause is over that have more free than at the last look; about how many.

    `last_free` is kept between calls: what was free of each cluster that is asked again later.
    """
    with context.database.reading() as connection:
        now = context.clock()
        names = bid_rounds.postponed_clusters(connection, now)
        clusters = latest_fleet(context, connection).clusters if names else {}
    free = {name: clusters[name].unused or {} for name in names if name in clusters}
    freed = [name for name, amounts in free.items() if name in last_free and _is_more(amounts, last_free[name])]
    last_free.clear()
    last_free.update(free)
    if not freed:
        return 0
    with context.database.writing() as connection:
        now = context.clock()
        before = now - timedelta(seconds=_PAUSE_SECONDS)
        return bid_rounds.bring_forward(connection, freed, before, now, _MOST)


def _is_more(amounts: Mapping[str, int], before: Mapping[str, int]) -> bool:
    return any(amount > before.get(name, 0) for name, amount in amounts.items())
