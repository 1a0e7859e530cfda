"""Summaries: whether a cluster takes work, or which members of a pool or label do, and why others do not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Group
from admin.core.problems import list_first
from admin.core.provenance import Provenance
from admin.core.resources import Amounts, format_amount
from admin.core.times import show_duration, show_time

#: Members that a sentence names; the others are counted.
_MOST_NAMED = 5

#: What keeps work away from a cluster, by the word of `Cluster.off_because`.
_WORDS = {
    "disabled": "it is disabled",
    "draining": "it is draining",
    "cordoned": "it is cordoned",
    "pending": "it waits to be admitted",
    "unreachable": "its agent is not heard",
    "lost": "its agent is lost",
    "deleted": "it was deleted",
}


def off_because(cluster: Cluster) -> list[str]:
    """The words for what keeps work away from a cluster; `expected` excludes all others."""
    words = [word for word in cluster.off_because.split(",") if word]
    return words or (["expected"] if cluster.is_expected else [])


def states_of(cluster: Cluster) -> list[str]:
    """Every word for the state of a cluster: what is heard of its agent, and what operators have switched."""
    states = ["pending" if not cluster.state.admitted else cluster.health.value]
    if not cluster.enabled:
        states.append("disabled")
    if cluster.state.draining:
        states.append("draining")
    elif cluster.state.cordoned:
        states.append("cordoned")
    return states


def describe_cluster(
    cluster: Cluster,
    free: Amounts | None,
    provenance: Mapping[str, Provenance],
    now: datetime,
    *,
    waiting: int = 0,
    is_unused: bool = False,
) -> str:
    """Whether a cluster takes work; if so what is free and how many wait, else why not, since when and by whom.

    One that `is_unused` is in no pool or label, and has no execution.
    """
    # A setting may name it all the same.
    unused = " Nothing runs or waits there, and no pool or label has it." if is_unused else ""
    return f"{_describe_state(cluster, free, provenance, now, waiting)}{unused}"


def _describe_state(
    cluster: Cluster, free: Amounts | None, provenance: Mapping[str, Provenance], now: datetime, waiting: int
) -> str:
    name = f"Cluster '{cluster.name}'"
    words = off_because(cluster)
    deleted_by = provenance.get("deleted")
    deleted = f" It was deleted by {deleted_by.describe(now)}; pools or labels still name it." if deleted_by else ""
    if not words:
        return f"{name} {_describe_room(cluster.capacity, free, waiting)}.{deleted}"
    if words == ["expected"]:
        gets = "It gets only what no cluster that has been seen could run."
        return f"{name} is expected: {cluster.why_expected}. {gets}{deleted}"
    if "draining" in words and provenance.get("cordoned", provenance.get("draining")) != provenance.get("draining"):
        words.insert(words.index("draining") + 1, "cordoned")  # by an event of its own
    if words == ["deleted"] and deleted_by:
        return f"{name} takes no work.{deleted}"
    reasons = "; ".join(_reason(cluster, word, provenance, now) for word in words)
    return f"{name} takes no work: {reasons}.{deleted}"


def _reason(cluster: Cluster, word: str, provenance: Mapping[str, Provenance], now: datetime) -> str:
    reason = _WORDS[word]
    if word in ("unreachable", "lost") and cluster.state.last_sync_at is not None:
        silent = show_duration((now - cluster.state.last_sync_at).total_seconds())
        return f"{reason}, last heard {silent} ago"
    made_by = provenance.get(word)
    deadline = cluster.state.drain_deadline
    until = ""
    if word == "draining" and deadline is not None:
        until = f" until {show_time(deadline)}" if deadline > now else f"; its deadline was at {show_time(deadline)}"
    return f"{reason}{until}{f' ({made_by.describe(now)})' if made_by else ''}"


def taken_up(total: Amounts | None, free: Amounts | None) -> list[str]:
    """The resources of a cluster of which nothing is free, by which it is full; nodes are shared."""
    if free is None:
        return []
    return [name for name, amount in (total or {}).items() if name != "nodes" and amount > 0 and free.get(name) == 0]


def _describe_room(total: Amounts | None, free: Amounts | None, waiting: int) -> str:
    """`is full (2 of 2 executions taken), 9 wait; free are 900m of 2 cpu`, or that it takes work."""
    wait = f"{waiting} {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    full = [
        f"{format_amount(name, (total or {})[name])} of {format_amount(name, (total or {})[name])} {name}"
        for name in taken_up(total, free)
    ]
    if not full:
        return f"takes work{describe_free(total, free)}{f'; {wait}' if wait else ''}"
    left = {name: amount for name, amount in (free or {}).items() if amount > 0 or name == "nodes"}
    return f"is full ({', '.join(full)} taken){f', {wait}' if wait else ''}{describe_free(total, left)}"


def describe_free(total: Amounts | None, free: Amounts | None) -> str:
    """What is free of what there is: `; free are 3 of 4 cpu`. Nodes are shared, so idle nodes are counted apart."""
    if free is None:
        return ", and has not reported what is free"
    amounts = [_free(name, amount, total) for name, amount in free.items() if name != "nodes"]
    nodes = (total or {}).get("nodes")
    idle = [f"{free['nodes']} of {nodes} nodes idle"] if nodes is not None and "nodes" in free else []
    parts = [*([f"free are {', '.join(amounts)}"] if amounts else []), *idle]
    return f"; {'; '.join(parts)}" if parts else ""


def _free(name: str, amount: int, total: Amounts | None) -> str:
    of = f" of {format_amount(name, total[name])}" if total and name in total else ""
    return f"{format_amount(name, amount)}{of} {name}"


def describe_group(
    group: Group,
    clusters: Mapping[str, Cluster],
    total: Amounts,
    free: Amounts,
    provenance: Mapping[str, Mapping[str, Provenance]],
    now: datetime,
    *,
    full: Collection[str] = (),
) -> str:
    """Which members of a pool or label take work, what is free there, and why the others do not, and by whom.

    `provenance` has by cluster what set its states; `full` are the members that would take work and are full.
    """
    kind = group.definition.kind
    strategy = f" ({group.strategy})" if kind is FleetKind.POOL else ""
    off = {
        name: words
        for name, weight in group.members
        if (words := ["weight 0"] if not weight > 0 else off_because(clusters[name]))
    }
    made_by = {name: provenance.get(name, {}) for name in off}
    number, able = len(group.members), len(group.members) - len(off)
    start = f"{kind.noun.capitalize()} '{group.name}'{strategy}:"
    members = "its one member" if number == 1 else f"{able or 'none'} of {number} members"
    if not off:
        members = members if number == 1 else f"all {number} members"
        return f"{start} {members} {_take_work(number, full)}{describe_free(total, free)}."
    not_able = "; ".join(_not_able(off, made_by, now))
    if not able:
        return f"{start} no member takes work now, so that what is placed by it waits: {not_able}."
    return f"{start} {members} {_take_work(able, full)}{describe_free(total, free)}; {not_able}."


def _take_work(able: int, full: Collection[str]) -> str:
    """What is said of so many members: `take work, of which east is full`."""
    if full and len(full) == able:
        return f"{'is' if able == 1 else 'are'} full"
    work = f"{'takes' if able == 1 else 'take'} work"
    if not full:
        return work
    return f"{work}, of which {list_first(sorted(full), _MOST_NAMED)} {'is' if len(full) == 1 else 'are'} full"


def _not_able(
    off: Mapping[str, list[str]], made_by: Mapping[str, Mapping[str, Provenance]], now: datetime
) -> Iterator[str]:
    """The members that take no work and why, then those that get what no member that was seen could run."""
    expected = [name for name, words in off.items() if words == ["expected"]]
    named = [
        f"{name} ({'; '.join(_word(word, made_by[name].get(word), now) for word in words)})"
        for name, words in off.items()
        if name not in expected
    ]
    if named:
        yield f"{list_first(named, _MOST_NAMED)} {'takes no work' if len(named) == 1 else 'take no work'}"
    if expected:
        yield f"{list_first(expected, _MOST_NAMED)} (expected: no agent has been seen)"


def _word(word: str, made_by: Provenance | None, now: datetime) -> str:
    return word if made_by is None else f"{word}: {made_by.describe(now)}"
