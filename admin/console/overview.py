"""The overview: how the fleet is, what waits and why, and what happened last."""

from __future__ import annotations

from typing import Any

from admin.console.answers import ask_if_allowed, asked_query
from admin.console.pages import Pages, render
from admin.core.live_subjects import Topic
from admin.core.permissions import SIGNED_IN

pages = Pages("overview")

_FEW = 8
_DAYS = 14


@pages.add("GET", "/", permission=SIGNED_IN, live=(Topic.EXECUTIONS, Topic.SETTINGS, Topic.FLEET))
def show_overview() -> str:
    """The first page."""
    asked_query()
    unfinished = "QUEUED,RUNNING,ABORTING"
    return render(
        "overview.html",
        title="Overview",
        commands=[
            ["get", "cluster"],
            ["get", "execution", "--phase", "QUEUED", "--by", "reason"],
            ["history", "--limit", str(_FEW)],
        ],
        clusters=ask_if_allowed("list_clusters", {"limit": 100}),
        phases=ask_if_allowed("count_executions", {"by": "phase", "phase": unfinished}),
        waits=ask_if_allowed("count_executions", {"by": "reason", "phase": "QUEUED"}),
        oldest=ask_if_allowed(
            "list_executions_everywhere",
            {"phase": "QUEUED", "limit": _FEW, "sort_by.key": "created_at", "sort_by.direction": "ASCENDING"},
        ),
        failures=ask_if_allowed("list_executions_everywhere", {"phase": "FAILED,TIMED_OUT", "limit": _FEW}),
        **_days(),
        most_days=_DAYS,
        changes=ask_if_allowed("list_revisions", {"limit": _FEW}),
    )


def _days() -> dict[str, Any]:
    """How many executions were created on each of the last days, oldest first, and how high their bars are.

    Where there are very many, only the newest of them are counted; `counted` is then how many.
    """
    counted = ask_if_allowed("count_executions", {"by": "day", "created_after": f"{_DAYS}d"})
    if counted is None:
        return {"days": None, "counted": None}
    most = max((count["count"] for count in counted["counts"]), default=0)
    days = [{"day": count["value"], "count": count["count"]} for count in reversed(counted["counts"])]
    total = sum(day["count"] for day in days)
    bars = [{**day, "height": max(1, round(40 * day["count"] / most))} for day in days]
    return {"days": bars, "counted": total if counted.get("token") else None}
