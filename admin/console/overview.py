"""The overview: how the fleet is, what waits and why, and what happened last."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

from flask import request

from admin.api.current import context
from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.days import BY, days_of, heights
from admin.console.executions import longest_wait, most_counted
from admin.console.pages import ANEW, Pages, render
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.clusters import DESCRIBED, REGISTERED
from admin.core.live_subjects import Topic
from admin.core.permissions import SIGNED_IN

pages = Pages("overview")

_FEW = 8
#: Events of clusters among which those are that people caused; agents cause most of them.
_EVENTS = 50
#: Events that agents cause, and that have an author all the same.
_BY_AGENTS = (REGISTERED, DESCRIBED)
_UNFINISHED = (Phase.QUEUED.value, Phase.RUNNING.value, Phase.ABORTING.value)
_DAYS = 14
#: Executions whose days are counted, the newest; more would take longer than all else on the page.
_MOST_IN_DAYS = 5_000
#: A larger fleet is counted, and only clusters that take no work are listed.
_MOST_CLUSTERS = 12


@pages.add("GET", "/", permission=SIGNED_IN, live=(Topic.EXECUTIONS, Topic.SETTINGS, Topic.FLEET))
def show_overview() -> str:
    """The first page."""
    asked_query()
    waits = _waits()
    return render(
        "overview.html",
        title="Overview",
        commands=[
            ["get", "cluster"],
            ["get", "execution", "--phase", "QUEUED", "--by", "reason"],
            ["history", "--limit", str(_FEW)],
        ],
        clusters=_clusters(),
        phases=None if waits is None else _phases(waits),
        waits=waits,
        most_counted=most_counted(),
        oldest=ask_if_allowed(
            "list_executions_everywhere",
            {"phase": "QUEUED", "limit": _FEW, "sort_by.key": "created_at", "sort_by.direction": "ASCENDING"},
        ),
        failures=ask_if_allowed(
            "list_executions_everywhere", {"phase": "FAILED,TIMED_OUT", "limit": _FEW, "sort_by.key": "finished_at"}
        ),
        # Not when the page is shown anew: days change slowly, and to count many executions takes longer than all else.
        **({"days": None} if ANEW in request.headers else _days()),
        heights=heights,
        changes=_changes(),
    )


def _changes() -> list[dict[str, Any]] | None:
    """What people changed last: revisions, and what they did to clusters, where the caller may see it."""
    entries: list[dict[str, Any]] = []
    for source, limit in (("revision", _FEW), ("cluster-event", _EVENTS)):
        listed = ask_if_allowed("list_timeline", {"source": source, "limit": limit})
        if listed is None:
            return None
        entries += [entry for entry in listed["entries"] if entry.get("author") and entry.get("type") not in _BY_AGENTS]
    return sorted(entries, key=lambda entry: str(entry["at"]), reverse=True)[:_FEW]


def _clusters() -> dict[str, Any] | None:
    """The clusters, or of many those that take no work; large fleets are so listed once."""
    unable: dict[str, Any] | None = ask_if_allowed("list_clusters", {"limit": _MOST_CLUSTERS, "takes_work": False})
    if unable is None or unable["counts"]["clusters"] > _MOST_CLUSTERS:
        return unable and {**unable, "are_many": True}
    return dict(ask("list_clusters", {"limit": _MOST_CLUSTERS}))


def _phases(waits: dict[str, Any]) -> list[dict[str, Any]]:
    """How many executions are in each phase before the end; each is counted by itself, so that none hides another.

    What is queued was counted by its reasons.
    """
    phases = []
    for phase in _UNFINISHED:
        counted = waits if phase == Phase.QUEUED.value else ask("count_executions", _counted("phase", phase))
        longest = [count["waiting"]["longest_seconds"] for count in counted["counts"] if count.get("waiting")]
        waiting = {"longest_seconds": max(longest)} if longest else None
        entry = {"phase": phase, "count": counted["total"], "is_partial": "token" in counted, "waiting": waiting}
        phases.append(entry)
    return phases


def _waits() -> dict[str, Any] | None:
    """The reasons of what waits, that of the longest wait first."""
    counted: dict[str, Any] | None = ask_if_allowed("count_executions", _counted("reason", Phase.QUEUED.value))
    if counted is not None:
        counted["counts"].sort(key=longest_wait, reverse=True)
    return counted


def _counted(by: str, phase: str) -> dict[str, Any]:
    """What is asked for to count those in a phase."""
    return {"by": by, "phase": phase, "limit": most_counted()}


def _days() -> dict[str, Any]:
    """The last days; `counted` is how many executions were, where there are more."""
    today = context().clock().astimezone(UTC).date()
    first = today - timedelta(days=_DAYS)
    asked = {"by": ",".join(BY), "created_after": first.isoformat(), "limit": _MOST_IN_DAYS}
    counted = ask_if_allowed("count_executions", asked)
    if counted is None:
        return {"days": None, "counted": None}
    days = days_of(counted, first, today)
    is_partial = "token" in counted
    return {"days": days if counted["total"] or is_partial else [], "counted": counted["total"] if is_partial else None}
