"""Events of clusters, and of the admin itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, insert, literal, or_, select, text, update

from admin.core.changes import ANONYMOUS
from admin.core.fleet.clusters import (
    BY_AGENT,
    BY_OPERATORS,
    DELETED,
    DESCRIBED,
    END_EVENTS,
    HEALTH_EVENTS,
    REGISTERED,
    REPORTED,
    STATE_EVENTS,
)
from admin.core.json_text import JsonObject
from admin.core.provenance import Actor, Provenance, acting_proof, read_name
from admin.store.database import insert_new
from admin.store.fleet_tables import NO_REPORT, cluster_events, cluster_states, moved_clusters
from admin.store.keys import NumberedQuery


@dataclass(frozen=True, kw_only=True)
class ClusterEvent:
    """Something that happened to a cluster; or in the admin, to no cluster."""

    cluster: str = ""
    at: datetime
    type: str
    reason: str | None = None
    claimed_by: str | None = None
    number: int = 0
    deadline: datetime | None = None  #: of a drain: when it ends what runs
    revision: int | None = None  #: that deleted the cluster
    proven_author: str | None = None
    proof: str | None = None  #: how the author was proven
    request_id: str | None = None  #: of an operator
    moves: JsonObject | None = None  #: of a round that somebody asked for: what its next step adds to

    def by(self, actor: Actor) -> ClusterEvent:
        """The same event, which somebody caused."""
        return replace(self, claimed_by=actor.claimed_by, proven_author=actor.proven_author, proof=actor.proof)

    @property
    def author(self) -> str | None:
        """Who did it, as far as that is known; None for what the admin and agents do by themselves."""
        if self.proven_author is not None:
            return self.proven_author
        if self.type == REGISTERED:
            return BY_AGENT
        is_asked_for = self.moves is not None or self.type in (*BY_OPERATORS, DESCRIBED)
        return ANONYMOUS if self.claimed_by or is_asked_for else None

    @property
    def provenance(self) -> Provenance:
        """What is said of a state that it led to."""
        return Provenance(
            event=self.number,
            author=self.author or ANONYMOUS,
            claimed_by=self.claimed_by,
            at=self.at,
            message=self.reason,
            proof=acting_proof(self.author or ANONYMOUS, self.proof),
        )


#: Reports that are looked at for one that tells of something else than load: an agent makes one with every job.
_MOST_REPORTS = 200
#: Why a report counts as a change of the cluster.
CHANGED = "It has something else than before."


def changed_at(connection: Connection, cluster: str) -> datetime | None:
    """When what a cluster has last changed, by its description or its agent's report; None where that is long ago."""
    is_such = (cluster_events.c.cluster == cluster, cluster_events.c.type.in_((DESCRIBED, REPORTED)))
    newest = select(cluster_events.c.at, cluster_events.c.type, cluster_events.c.reason).where(*is_such)
    rows = connection.execute(newest.order_by(cluster_events.c.number.desc()).limit(_MOST_REPORTS))
    return next((at for at, type, reason in rows if type == DESCRIBED or reason is not None), None)


def add_event(connection: Connection, event: ClusterEvent) -> None:
    """Store something that happened to a cluster."""
    add_events(connection, [event])


def add_events(connection: Connection, events: Iterable[ClusterEvent]) -> None:
    """Store what happened to clusters."""
    rows = [{name: value for name, value in vars(event).items() if name != "number"} for event in events]
    if rows:
        connection.execute(insert(cluster_events), rows)


def add_moved_clusters(connection: Connection, number: int, clusters: Iterable[str]) -> None:
    """Store which clusters executions left or came to in the round that an event tells of."""
    insert_new(connection, moved_clusters, [{"event": number, "cluster": cluster} for cluster in sorted(clusters)])


def add_numbered_event(connection: Connection, event: ClusterEvent) -> int:
    """Store something that happened; returns its number."""
    values = {name: value for name, value in vars(event).items() if name != "number"}
    key = connection.execute(insert(cluster_events).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def get(connection: Connection, number: int) -> ClusterEvent | None:
    """An event by its number."""
    row = connection.execute(select(cluster_events).where(cluster_events.c.number == number)).one_or_none()
    return None if row is None else ClusterEvent(**row._mapping)


def complete_event(connection: Connection, number: int, reason: str, moves: JsonObject) -> None:
    """Say in an event what has come of it."""
    values = {"reason": reason, "moves": moves}
    connection.execute(update(cluster_events).where(cluster_events.c.number == number).values(values))


@dataclass(frozen=True, kw_only=True)
class ClusterEventFilter:
    """Which events of clusters a list contains; None for any."""

    cluster: str | None = None
    moved: str | None = None  #: a cluster that executions left or came to
    types: Sequence[str] | None = None
    of_clusters: bool = False  #: without those of no cluster
    actor: str | None = None  #: the author, verified or claimed
    after: datetime | None = None
    before: datetime | None = None
    request_id: str | None = None
    without_reports: bool = False  #: an agent makes one at each change of its load


def events(connection: Connection, filters: ClusterEventFilter, below: int | None, limit: int) -> list[ClusterEvent]:
    """Events of clusters, newest first, below a number if one is given."""
    query, number = select(cluster_events), cluster_events.c.number.expression
    if filters.cluster is not None:
        query = query.where(cluster_events.c.cluster == filters.cluster)
    if filters.moved is not None:
        number = moved_clusters.c.event.expression
        query = query.where(moved_clusters.c.cluster == filters.moved, cluster_events.c.number == number)
    if filters.actor == ANONYMOUS:
        by_somebody = or_(
            cluster_events.c.claimed_by.is_not(None),
            cluster_events.c.moves.is_not(None),
            cluster_events.c.type.in_((*BY_OPERATORS, DESCRIBED)),
        )
        query = query.where(cluster_events.c.proven_author.is_(None), by_somebody)
    elif filters.actor == BY_AGENT:
        query = query.where(or_(cluster_events.c.claimed_by == BY_AGENT, cluster_events.c.type == REGISTERED))
    elif filters.actor is not None:
        author, claimed_by = read_name(filters.actor) or ("", "")
        proven, claimed = cluster_events.c.proven_author, cluster_events.c.claimed_by
        is_author = proven.is_(None) if author == ANONYMOUS else proven == author
        is_both = and_(is_author, claimed == claimed_by)
        query = query.where(or_(proven == filters.actor, claimed == filters.actor, is_both))
    if filters.request_id is not None:
        query = query.where(cluster_events.c.request_id == filters.request_id)
    if filters.types is not None:
        query = query.where(cluster_events.c.type.in_(filters.types))
    if filters.of_clusters:
        query = query.where(cluster_events.c.cluster != "")
    if filters.without_reports and filters.cluster is not None:
        # Two ranges of types, and a sum that no index has, keep databases from walking over all reports of the cluster.
        query = query.where(or_(cluster_events.c.type < REPORTED, cluster_events.c.type > REPORTED))
        number = cluster_events.c.number + 0
    elif filters.without_reports:
        query = query.where(text(NO_REPORT))
    if filters.after is not None:
        query = query.where(cluster_events.c.at >= filters.after)
    if filters.before is not None:
        query = query.where(cluster_events.c.at < filters.before)
    if below is not None:
        query = query.where(number < below)
    rows = connection.execute(query.order_by(number.desc()).limit(limit))
    return [ClusterEvent(**row._mapping) for row in rows]


def count_reports(connection: Connection, cluster: str, above: int | None, below: int | None) -> int:
    """How many reports of a cluster are among the events between two numbers; retention bounds what this reads."""
    query = select(func.count()).where(cluster_events.c.cluster == cluster, cluster_events.c.type == REPORTED)
    if above is not None:
        query = query.where(cluster_events.c.number > above)
    if below is not None:
        query = query.where(cluster_events.c.number < below)
    return int(connection.execute(query).scalar_one())


def newest_names(connection: Connection, limit: int) -> set[str]:
    """Who caused the newest events, reports of agents aside: the proven authors and the names that callers gave."""
    query = select(cluster_events.c.claimed_by, cluster_events.c.proven_author).where(text(NO_REPORT))
    rows = connection.execute(query.order_by(cluster_events.c.number.desc()).limit(limit))
    return {name for names in rows for name in names if name}


def switched_by(
    connection: Connection, clusters: Mapping[str, Sequence[str]], until: datetime
) -> dict[tuple[str, str], Provenance]:
    """The events up to a time that set the states of clusters, by cluster and state.

    Events that are no longer kept are left out.
    """
    return _begun(connection, clusters, STATE_EVENTS, until)


def begun_apart(
    connection: Connection, clusters: Mapping[str, Sequence[str]], until: datetime
) -> dict[tuple[str, str], Provenance]:
    """The events up to a time that began states of clusters and no other one, and that nothing has ended since.

    A drain cordons a cluster too, and is not among those that cordoned it.
    """
    return _begun(connection, clusters, {state: STATE_EVENTS[state][:1] for state in clusters}, until)


def lasting(connection: Connection, numbers: Sequence[int]) -> set[int]:
    """Those of some events that began a state or a health in which their clusters still are."""
    return set(connection.execute(_SELECT_LASTING, {"numbers": list(numbers)}).scalars()) if numbers else set()


def switches_of(connection: Connection, state: str, names: Iterable[str], until: datetime) -> list[ClusterEvent]:
    """The newest events up to a time that began or ended a state of some clusters, newest first."""
    types = (*STATE_EVENTS[state], *END_EVENTS[state])
    query = select(cluster_events).where(
        cluster_events.c.cluster.in_(list(names)), cluster_events.c.type.in_(types), cluster_events.c.at <= until
    )
    # The sum keeps databases from walking back over all events, as below.
    rows = connection.execute(query.order_by((cluster_events.c.number + 0).desc()).limit(_MOST_SWITCHES))
    return [ClusterEvent(**row._mapping) for row in rows]


def ends_of_drains(connection: Connection, events: Iterable[ClusterEvent]) -> dict[int, Provenance]:
    """The events that ended drains, by the numbers of those that began them; another drain ends the one before it."""
    drains = [event for event in events if event.type == "DRAINING"]
    if not drains:
        return {}
    rows = _ENDS_OF_DRAINS.execute(connection, [drain.number for drain in drains])
    numbers = {row.number: row.ended_by for row in rows if row.ended_by is not None}
    ends = {row.number: ClusterEvent(**row._mapping) for row in _SELECT_EVENTS.execute(connection, numbers.values())}
    return {drain: ends[number].provenance for drain, number in numbers.items()}


#: Events that answers about many decisions look at.
_MOST_SWITCHES = 1000


def _begun(
    connection: Connection, clusters: Mapping[str, Sequence[str]], begins: Mapping[str, Sequence[str]], until: datetime
) -> dict[tuple[str, str], Provenance]:
    return {
        (event.cluster, state): event.provenance
        for state, names in clusters.items()
        for event in _last_events(connection, names, begins[state], END_EVENTS[state], until)
    }


def _last_events(
    connection: Connection, names: Sequence[str], begins: Sequence[str], ends: Sequence[str], until: datetime
) -> list[ClusterEvent]:
    """The last of the events of each cluster that begin or end something, of those where it begins it."""
    if not names:
        return []
    values = {"names": list(names), "types": [*begins, *ends], "until": until}
    numbers = [number for number in connection.execute(_LAST_EVENTS, values).scalars() if number is not None]
    rows = _SELECT_EVENTS.execute(connection, numbers)
    return [ClusterEvent(**row._mapping) for row in rows if row.type in begins]


#: The sum keeps databases from walking back over all events of a cluster in search of the largest number.
_LAST_EVENTS = select(
    select(func.max(cluster_events.c.number + 0))
    .where(
        cluster_events.c.cluster == cluster_states.c.name,
        cluster_events.c.type.in_(bindparam("types", expanding=True)),
        cluster_events.c.at <= bindparam("until"),
    )
    .scalar_subquery()
).where(cluster_states.c.name.in_(bindparam("names", expanding=True)))


_SELECT_EVENTS = NumberedQuery(select(cluster_events), cluster_events.c.number)
_later = cluster_events.alias("later").c
_ENDS_OF_DRAINS = NumberedQuery(
    select(
        cluster_events.c.number,
        select(func.min(_later.number + 0))  # by sums, so that the index of types is read and not every later event
        .where(
            _later.cluster == cluster_events.c.cluster,
            _later.type.in_((*END_EVENTS["draining"], "DRAINING")),
            _later.number + 0 > cluster_events.c.number,
        )
        .scalar_subquery()
        .label("ended_by"),
    ),
    cluster_events.c.number,
)


def _is_last(type_: str, ends: Sequence[str]) -> ColumnElement[bool]:
    """Whether an event is of a type, and no later one of its cluster began the same again or ended it."""
    later = cluster_events.alias()
    is_later = (
        later.c.cluster == cluster_events.c.cluster,
        later.c.type.in_([type_, *ends]),
        later.c.number + 0 > cluster_events.c.number,  # a sum, for the same reason as above
    )
    return and_(cluster_events.c.type == type_, ~select(literal(1)).where(*is_later).exists())


_IS_IN_STATE = {
    "disabled": cluster_states.c.enabled.is_(False),
    "cordoned": cluster_states.c.cordoned,
    "draining": cluster_states.c.draining,
}
_SELECT_LASTING = (
    select(cluster_events.c.number)
    .join(cluster_states, cluster_states.c.name == cluster_events.c.cluster)
    .where(
        cluster_events.c.number.in_(bindparam("numbers", expanding=True)),
        or_(
            *(
                and_(is_in, _is_last(STATE_EVENTS[state][0], END_EVENTS[state]))
                for state, is_in in _IS_IN_STATE.items()
            ),
            *(
                and_(cluster_states.c.health == health, _is_last(type_, (DELETED,)))
                for health, type_ in HEALTH_EVENTS.items()
            ),
        ),
    )
)
