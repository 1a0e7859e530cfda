"""Rounds of new decisions: what became of each execution, and the event that tells of all of them and of the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from admin.core.fleet.clusters import PRUNED, REDECIDED, REPORTED
from admin.core.fleet.seen_changes import SeenChanges
from admin.core.json_text import JsonObject
from admin.core.placement.filters import USE
from admin.core.problems import list_first, shorten
from admin.core.provenance import NOBODY, Actor, Provenance, show_name
from admin.services.context import Context
from admin.store import cluster_events, revisions, row_changes
from admin.store.cluster_events import ClusterEvent, ClusterEventFilter
from admin.store.executions import ExecutionId

#: Moves, and executions, that the event of a round names; the others are counted together.
_MOST_NAMED = 5
#: Events and revisions among which the cause of a round is looked for.
_MOST_SEARCHED = 20


@dataclass(frozen=True, kw_only=True)
class Redecided:
    """The outcome of a new decision of one execution."""

    id: ExecutionId
    previous_cluster: str | None
    previous_reason: str
    previous_message: str
    cluster: str | None
    pool: str | None
    label: str | None
    reason: str
    message: str
    is_change: bool
    given_back_by: str | None = None  #: the cluster that it was at before it was given back or taken away

    @property
    def domain(self) -> str:
        return self.id.domain

    @property
    def is_move(self) -> bool:
        """Whether it has another cluster than before, or none any more."""
        return self.is_change and self.cluster != self.previous_cluster

    @property
    def left(self) -> str | None:
        """The cluster that it was at before."""
        return self.previous_cluster or self.given_back_by

    @property
    def moved_clusters(self) -> set[str]:
        """The clusters that it left and came to."""
        has_left = self.is_move or self.given_back_by is not None
        clusters = (self.left, self.cluster) if has_left else ()
        return {cluster for cluster in clusters if cluster}

    @property
    def is_noted(self) -> bool:
        """Whether the event of a round tells of it: a message that names other amounts is no news."""
        return self.is_move or (self.is_change and self.reason != self.previous_reason)


@dataclass(frozen=True, kw_only=True)
class Moves:
    """From where to where the executions of a round went, and which went first."""

    counts: Counter[str]  #: by `east -> west`
    moved: Sequence[str]  #: the first that have another cluster, or none any more
    stayed: Sequence[str]  #: the first of the others

    @classmethod
    def of(cls, noted: Sequence[Redecided]) -> Moves:
        moved, stayed = ([str(each.id) for each in noted if each.is_move is is_move] for is_move in (True, False))
        counts = Counter(map(_describe_move, noted))
        return cls(counts=counts, moved=moved[:_MOST_NAMED], stayed=stayed[:_MOST_NAMED])

    def and_then(self, later: Moves) -> Moves:
        """Those of two steps of the same round."""
        return Moves(
            counts=self.counts + later.counts,
            moved=[*self.moved, *later.moved][:_MOST_NAMED],
            stayed=[*self.stayed, *later.stayed][:_MOST_NAMED],
        )

    def describe(self) -> str:
        """`7 decided again: east -> west: 5, east -> north: 2 (p/d/a, p/d/b and 5 more).`"""
        number, most = self.counts.total(), self.counts.most_common(_MOST_NAMED)
        parts = [f"{move}: {count}" for move, count in most]
        rest = number - sum(count for _, count in most)
        parts += [f"others: {rest}"] if rest else []
        names = list_first([*self.moved, *self.stayed], _MOST_NAMED, count=number)
        return f"{number} decided again: {', '.join(parts)} ({names})."

    def as_json(self) -> JsonObject:
        return {"counts": dict(self.counts), "moved": list(self.moved), "stayed": list(self.stayed)}

    @classmethod
    def from_json(cls, document: JsonObject) -> Moves:
        """What `as_json` made."""
        return cls(**{**document, "counts": Counter(document["counts"])})


@dataclass(kw_only=True)
class Round:
    """Executions that are decided again together, for one cause, in one transaction or in several."""

    context: Context
    cause: str | None = None  #: None to look for it
    by: Actor | None = None  #: who asked for it, if somebody did

    def begin(self, connection: Connection) -> None:
        """Read what the cause is to be found among, before anything is decided."""

    def note(self, connection: Connection, outcomes: Iterable[Redecided]) -> None:
        """Store one event for some executions, however many they are; none where nothing has changed."""
        noted = [outcome for outcome in outcomes if outcome.is_noted]
        if noted:
            reason = f"{Moves.of(noted).describe()} {self.find_cause(connection, noted)}"
            event = ClusterEvent(at=self.context.clock(), type=REDECIDED, reason=reason).by(self.by or NOBODY)
            _note_clusters(connection, cluster_events.add_numbered_event(connection, event), noted)

    def because(self, connection: Connection, outcome: Redecided) -> str:
        """Why one execution was decided again, and from which cluster it went, as its decision keeps it."""
        return because(outcome, self.find_cause(connection, [outcome]))

    def find_cause(self, connection: Connection, noted: Sequence[Redecided]) -> str:
        """What the executions that are given back say themselves, unless a cause is given."""
        if self.cause is not None:
            return self.cause
        causes = Counter(outcome.previous_message for outcome in noted).most_common(_MOST_NAMED)
        shown = ((shorten(message, 200), count) for message, count in causes)
        return " ".join(f"{message} ({count})" if len(causes) > 1 else message for message, count in shown)


@dataclass(kw_only=True)
class RequestedRound(Round):
    """Executions that somebody asked to decide again, each in a transaction of its own.

    Its event comes before the first decision that it tells of, and names all of them once they are made. Where they are
    asked for in steps, each step but the first goes on with the event of the one before.
    """

    event: int | None = None  #: its number
    _before: Moves = field(default_factory=lambda: Moves.of([]), init=False)  #: those of the steps before

    def __post_init__(self) -> None:
        """Read what the event tells already; one of somebody else, or that is no longer kept, is left as it is."""
        if self.event is None:
            return
        with self.context.database.reading() as connection:
            event = cluster_events.get(connection, self.event)
        if event is None or event.moves is None or event != event.by(self.by or NOBODY):
            self.event = None
        else:
            self._before = Moves.from_json(event.moves)

    def because(self, connection: Connection, outcome: Redecided) -> str:
        """Who asked for it, and why if that was said."""
        why = f", '{shorten(' '.join(self.cause.split()), 200)}'" if self.cause else ""
        return because(outcome, f"asked to decide again by {self.by or NOBODY}{why}")

    def find_cause(self, connection: Connection, noted: Sequence[Redecided]) -> str:
        """What was said when it was asked."""
        return self.cause or "This was requested."

    def announce(self, connection: Connection, outcome: Redecided) -> None:
        """Store the event, before the first decision that it tells of is stored."""
        if self.event is None and outcome.is_noted:
            cause = self.find_cause(connection, [outcome])
            reason = f"Waiting executions are decided again, {outcome.id} first. {cause}"
            event = ClusterEvent(at=self.context.clock(), type=REDECIDED, reason=reason).by(self.by or NOBODY)
            self.event = cluster_events.add_numbered_event(connection, event)
            _note_clusters(connection, self.event, [outcome])

    def complete(self, outcomes: Iterable[Redecided]) -> None:
        """Have the event name what became of the executions."""
        noted = [outcome for outcome in outcomes if outcome.is_noted]
        if self.event is not None and noted:
            moves = self._before.and_then(Moves.of(noted))
            with self.context.database.writing() as connection:
                reason = f"{moves.describe()} {self.find_cause(connection, noted)}"
                cluster_events.complete_event(connection, self.event, reason, moves.as_json())
                _note_clusters(connection, self.event, noted)


@dataclass(kw_only=True)
class FleetRound(Round):
    """Executions that are decided again since the fleet has changed, or has room again."""

    _newest: SeenChanges | None = field(default=None, init=False)
    _events: Sequence[ClusterEvent] = field(default=(), init=False)  #: the last ones when the round began
    _causes: dict[frozenset[str], str] = field(default_factory=dict, init=False)  #: by the clusters that they are about
    _revision: Provenance | None = field(default=None, init=False)  #: the last one of the fleet, once a cause was found

    def begin(self, connection: Connection) -> None:
        """Read the last events of the fleet; the first transaction counts."""
        if self._newest is None:
            last_seen = self.context.seen_changes.event or 0
            self._events = cluster_events.events(
                connection, ClusterEventFilter(without_reports=True), None, _MOST_SEARCHED
            )
            event = max([last_seen, *(event.number for event in self._events)])
            self._newest = SeenChanges(event=event, revision=revisions.head(connection))

    def find_cause(self, connection: Connection, noted: Sequence[Redecided]) -> str:
        """What has happened to the fleet since the last such round, above all to the clusters of these executions."""
        if self.cause is not None:
            return self.cause
        if self.context.seen_changes.event is None:
            return _first_cause(noted)
        if not self._causes:
            self._revision = row_changes.last_of_fleet(connection, _MOST_SEARCHED)
        clusters = frozenset(name for outcome in noted for name in outcome.moved_clusters)
        if clusters not in self._causes:
            seen = self.context.seen_changes
            self._causes[clusters] = _describe_cause(seen, self._events, self._revision, clusters)
        return self._causes[clusters]

    def end(self) -> None:
        """Store what was examined, for the next round."""
        if self._newest is not None:
            self.context.seen_changes.remember(self._newest)


def because(outcome: Redecided, cause: str) -> str:
    """`from birch: after event 34, …`; the cause alone where it stays where it was."""
    cause = f"{cause[:1].lower()}{cause[1:]}".rstrip(".")
    return cause if outcome.cluster == outcome.left else f"from {outcome.left or 'no cluster'}: {cause}"


def _note_clusters(connection: Connection, event: int, noted: Iterable[Redecided]) -> None:
    """Store which clusters the event of a round is about, so that their histories have it."""
    cluster_events.add_moved_clusters(connection, event, {name for outcome in noted for name in outcome.moved_clusters})


def _describe_move(outcome: Redecided) -> str:
    """`east -> west`; `east -> none (CLUSTERS_FULL)` for one that waits now."""
    if not outcome.left and not outcome.cluster:
        return f"stays without a cluster ({outcome.reason})"
    return f"{outcome.left or 'none'} -> {outcome.cluster or f'none ({outcome.reason})'}"


def _first_cause(noted: Sequence[Redecided]) -> str:
    """Why a process that has just begun decides again: it does not know what is new, its configuration may be."""
    if all(USE.code in (outcome.reason, outcome.previous_reason) for outcome in noted):
        return "Which clusters creators may use had changed, by grants or the configuration, when this admin started."
    return (
        "The fleet, the configuration or which clusters creators may use had changed, or there was room again, when "
        "this admin started."
    )


def _describe_cause(
    seen: SeenChanges, newest: Sequence[ClusterEvent], revision: Provenance | None, clusters: Collection[str]
) -> str:
    """The last event or revision that changed the fleet, of those that are new; else there is room again.

    Of events those of some clusters count before any other, the last one of each: several may be switched at once.
    """
    events = [event for event in newest if event.type not in (PRUNED, REDECIDED) and seen.is_new_event(event.number)]
    last_events = {event.cluster: event for event in reversed(events) if event.cluster in clusters}
    causes = sorted(last_events.values(), key=lambda event: event.number)[-_MOST_NAMED:] or events[:1]
    event = causes[-1] if causes else None
    if revision is not None and not seen.is_new_revision(revision.revision or 0):
        revision = None
    if revision is not None and (event is None or revision.at >= event.at):
        return f"After revision {revision.revision} by {_who(revision)}."
    if event is None:
        return "Room was left, or an agent reported a change."
    return f"After {', and '.join(map(_describe_event, causes))}."


def _describe_event(event: ClusterEvent) -> str:
    by = f" by {_who(event.provenance)}" if event.author else f": {shorten(event.reason, 200)}" if event.reason else ""
    return f"event {event.number}, cluster '{event.cluster}' {_words(event)}{by.rstrip('.')}"


def _words(event: ClusterEvent) -> str:
    """What happened to a cluster, in words: `was drained`, `is ready`."""
    return _HAPPENED.get(event.type) or f"is {event.type.lower().replace('_', ' ')}"


#: What operators do to clusters, by the types of events; the others name the state that a cluster came to.
_HAPPENED = {
    "DRAINING": "was drained",
    REPORTED: "reported",
    **{
        type_: f"was {type_.lower()}"
        for type_ in ("UNDRAINED", "CORDONED", "UNCORDONED", "DISABLED", "ENABLED", "ADMITTED", "REGISTERED", "DELETED")
    },
}


def _who(made_by: Provenance) -> str:
    message = f", '{shorten(' '.join(made_by.message.split()), 200)}'" if made_by.message else ""
    return f"{show_name(made_by.author, made_by.claimed_by, made_by.proof)}{message}"
