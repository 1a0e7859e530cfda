"""The timeline: revisions, registrations and events of clusters in one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated

from marshmallow import ValidationError, fields, validates_schema
from msgspec import Meta

from admin.core.executions.attempt_records import cause_of_execution
from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import parse_time
from admin.core.fleet.clusters import EVENT_TYPES
from admin.core.fleet.definitions import FleetKind
from admin.core.registrations import ACTIVE, INACTIVE
from admin.core.settings.scopes import Scope
from admin.messages.cluster_events import Deadline, DrainEnd
from admin.messages.executions import ExecutionIdAnswer, GivenUpAnswer
from admin.messages.pages import key_of, parse_number, token_of, wrong_token
from admin.messages.registrations import IdentifierAnswer
from admin.messages.requests import NAME, Fields, Flag, OneOf, PageQuery, ResourceType, ScopeQuery
from admin.messages.revisions import AlsoUndone, Restored, RowDifference, Undone
from admin.messages.selectors import TimeField
from admin.messages.shared import Answer, Json, ProofField, ProvenanceAnswer, SeenAnswer, Time, one_of
from admin.messages.unknown_names import UnknownNameAnswer, UnknownNames
from admin.services.changeable.registry import NAMED_KINDS
from admin.services.timeline import MOST_CHANGES, Entry, Position, TimelinePage
from admin.services.timeline_filters import CREATION, EXECUTION, SOURCES, TimelineFilter
from admin.store.executions import ListedExecution
from admin.store.registration_tables import launch_plans, workflows

_OF_CLUSTER = (
    "The definition and the events of this one, rounds that moved executions from or to it, and revisions that changed "
    "the members of pools and labels which had or have it."
)
_FILTERS = ("domain", "project", "workflow", "launch_plan", "name", "cluster", "actor")
_MORE_FILTERS = ("source", "executions", "creations", "request_id", "after", "before")


#: The nouns of rows that have a name.
_NAMED = " or ".join(", ".join(kind.lower() for kind in NAMED_KINDS).rsplit(", ", 1))


class TimelineQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType()
    name = fields.String(validate=NAME, metadata={"description": f"With resource_type {_NAMED}: the one of this name."})
    cluster = fields.String(validate=NAME, metadata={"description": _OF_CLUSTER})
    actor = fields.String(validate=NAME, metadata={"description": "The author, verified or claimed."})
    source = fields.String(validate=OneOf(SOURCES), metadata={"description": "Only entries of this kind."})
    executions = Flag(
        load_default=False,
        metadata={"description": "Ends of executions too; source=execution lists these alone."},
    )
    creations = Flag(
        load_default=False,
        metadata={"description": "Creations of executions too; source=creation lists these alone."},
    )
    request_id = fields.String(validate=NAME, metadata={"description": "What this request, or all of a command, did."})
    by = fields.String(
        validate=OneOf(["request"]),
        metadata={"description": "What one request or command did together, in `groups`; `entries` is empty then."},
    )
    after = TimeField(metadata={"type": "string", "description": "At this time or later, or so long ago: 7d."})
    before = TimeField(metadata={"type": "string", "description": "Before this time."})

    @validates_schema
    def check_name(self, query: Fields, **_: object) -> None:
        """A name is that of a definition, which belongs to no scope."""
        if "name" not in query:
            return
        if query.get("resource_type", "").upper() not in NAMED_KINDS:
            raise ValidationError(f"needs resource_type: {_NAMED}.", "name")
        if others := [key for key in ("cluster", *Scope._fields) if query.get(key)]:
            raise ValidationError(f"belongs to no scope and no other kind: leave it out, or {others[0]}.", "name")

    @validates_schema
    def check_cluster(self, query: Fields, **_: object) -> None:
        """A cluster belongs to no scope, and what is told of it is of its own kind."""
        if "cluster" not in query or query.get("source") in (EXECUTION, CREATION):
            return
        others = [key for key in Scope._fields if query.get(key)]
        if query.get("resource_type", FleetKind.CLUSTER.value).upper() != FleetKind.CLUSTER.value:
            others.append("resource_type")
        if others:
            raise ValidationError(f"belongs to no scope and no other kind: leave it out, or {others[0]}.", "cluster")


def timeline_filter(query: Fields, kind: str | None) -> TimelineFilter:
    """The entries that a `TimelineQuery` asks for."""
    conditions = {name: query[name] for name in (*_FILTERS, *_MORE_FILTERS) if name in query}
    if kind == FleetKind.CLUSTER.value and "name" in conditions:
        conditions["cluster"] = conditions.pop("name")  # its events are told too
    return TimelineFilter(kind=kind, **conditions)


#: Numbers in the token of a page, before the places of executions.
_NUMBERS = len(Position._fields) - 2


def position_of(token: str | None) -> Position:
    """Where the page of a token starts."""
    # A token of an earlier version has no place for registrations, for activations, or for executions.
    key = key_of(token, 2, 4, _NUMBERS, _NUMBERS + 2, _NUMBERS + 4) or ()
    numbers = [parse_number(part, wrong_token()) if part else None for part in (*key, *[""] * _NUMBERS)[:_NUMBERS]]
    revision, event, workflow, launch_plan, activation = numbers
    places = (_place(key[start : start + 2]) for start in (_NUMBERS, _NUMBERS + 2))
    return Position(revision, event, workflow, launch_plan, activation, *places)


def _place(key: Sequence[str]) -> tuple[datetime, int] | None:
    """A place among executions, of the two parts of a token that it is made of."""
    if not key or not key[0]:
        return None
    try:
        return parse_time(key[0]), parse_number(key[1], wrong_token())
    except ValueError:
        raise wrong_token() from None


def _key(position: Position) -> list[str]:
    """The parts of the token of a position."""
    *numbers, execution, creation = position
    places = [
        part
        for place in (execution, creation)
        for part in (["", ""] if place is None else [place[0].isoformat(), str(place[1])])
    ]
    return [*("" if number is None else str(number) for number in numbers), *places]


def _executions_of(moves: Json) -> Iterator[ExecutionIdAnswer]:
    """The executions that the event of a round names."""
    for id in (*moves.get("moved", ()), *moves.get("stayed", ())):
        yield ExecutionIdAnswer(**dict(zip(("project", "domain", "name"), id.split("/", 2), strict=True)))


#: What is registered, in the words of events.
_REGISTERED = {workflows.name: "WORKFLOW_REGISTERED", launch_plans.name: "LAUNCH_PLAN_REGISTERED"}
_ACTIVATED = {ACTIVE: "LAUNCH_PLAN_ACTIVATED", INACTIVE: "LAUNCH_PLAN_DEACTIVATED"}
#: How an execution was created, by its mode.
_CREATED = {"MANUAL": "CREATED", "RELAUNCH": "RELAUNCHED", "RECOVERED": "RECOVERED"}
#: Every type that an entry may have.
ENTRY_TYPES = (
    *EVENT_TYPES,
    *_REGISTERED.values(),
    *_ACTIVATED.values(),
    *(phase.value for phase in Phase if phase.is_finished),
    *_CREATED.values(),
)


class EntryAnswer(Answer):
    """A revision, a registration, what happened to a cluster, or a round that decided again or deleted much."""

    at: Time
    source: Annotated[str, one_of(*SOURCES)]
    revision: Annotated[int | None, Meta(description="Of a revision, or the one that deleted a cluster.")] = None
    undone: Undone = None
    also_undone: AlsoUndone = None
    restored: Restored = None
    cluster: str | None = None
    type: Annotated[
        str | None,
        one_of(*ENTRY_TYPES),
        Meta(
            description="Of an event, whether a workflow or launch plan was registered, or the phase of an execution."
        ),
    ] = None
    number: Annotated[
        int | None,
        Meta(description="Of an event, or of a registration of its type; of a revision the same as `revision`."),
    ] = None
    id: Annotated[IdentifierAnswer | None, Meta(description="Of what was registered, activated or deactivated.")] = None
    execution: Annotated[
        ExecutionIdAnswer | None, Meta(description="That ended, `type` is its phase; or was created.")
    ] = None
    executions: Annotated[
        list[ExecutionIdAnswer] | None, Meta(description="Of a round that somebody asked for: the first ones of it.")
    ] = None
    reason: Annotated[str | None, Meta(description="Of an execution that has ended: the code of its reason.")] = None
    cause: Annotated[
        str | None, Meta(description="Of an execution that has ended without success: the category of its cause.")
    ] = None
    exit_code: Annotated[int | None, Meta(description="Of an execution that has ended.")] = None
    given_up: Annotated[
        GivenUpAnswer | None,
        Meta(description="Of an execution that somebody gave up, also after another had ended it."),
    ] = None
    workflow: Annotated[
        str | None, Meta(description="Of a launch plan that was registered, activated or deactivated.")
    ] = None
    replaced_by: Annotated[
        str | None, Meta(description="Of a launch plan: the version whose activation made this one inactive.")
    ] = None
    created_at: Annotated[Time | None, Meta(description="Of a revision, the same as `at`.")] = None
    author: Annotated[
        str | None, Meta(description="`unknown` for what was registered before authors were recorded.")
    ] = None
    claimed_by: str | None = None
    proof: ProofField = None
    message: Annotated[
        str | None, Meta(description="Why, as who did it says; of a round what it did, with counts.")
    ] = None
    deadline: Deadline = None
    ended_by: DrainEnd = None
    request_id: Annotated[
        str | None,
        Meta(description="Of a revision, a switch, a description or a registration; the same for all of one command."),
    ] = None
    change_count: int | None = None
    changes: Annotated[
        list[RowDifference] | None, Meta(description=f"The first {MOST_CHANGES} of a revision; it counts all.")
    ] = None

    @classmethod
    def from_entry(cls, entry: Entry) -> EntryAnswer:
        revision, event, registration = entry.revision, entry.event, entry.registration
        if revision is not None:
            return cls(
                at=revision.created_at,
                source=entry.source,
                revision=revision.number,
                number=revision.number,
                created_at=revision.created_at,
                **vars(revision.authorship),
                change_count=revision.change_count,
                changes=[RowDifference.from_change(change) for change in entry.changes] or None,
            )
        if registration is not None:
            return cls(
                at=registration.at,
                source=entry.source,
                type=_ACTIVATED[registration.state] if registration.state else _REGISTERED[registration.table],
                number=registration.number,
                id=IdentifierAnswer.from_attributes(registration.id),
                workflow=registration.workflow,
                replaced_by=registration.replaced_by,
                author=registration.author,
                claimed_by=registration.claimed_by,
                proof=registration.proof,
                message=registration.message,
                request_id=registration.request_id,
            )
        if entry.creation is not None:
            return cls.from_creation(entry.creation)
        if entry.execution is not None:
            return cls.from_execution(entry.execution)
        assert event is not None, "an entry is one of the five"
        return cls(
            at=event.at,
            source=entry.source,
            cluster=event.cluster,
            type=event.type,
            number=event.number,
            author=event.author,
            claimed_by=event.claimed_by,
            proof=event.proof,
            message=event.reason,
            request_id=event.request_id,
            revision=event.revision,
            deadline=event.deadline,
            ended_by=None if entry.ended_by is None else ProvenanceAnswer.from_attributes(entry.ended_by),
            executions=list(_executions_of(event.moves or {})) or None,
        )

    @classmethod
    def from_creation(cls, execution: ListedExecution) -> EntryAnswer:
        """The creation of an execution: by whom, and of which one it is another run."""
        reference = execution.reference or {}
        return cls(
            at=execution.created_at,
            source=CREATION,
            type=_CREATED.get(execution.mode, "CREATED"),
            execution=ExecutionIdAnswer.from_execution(execution),
            workflow=execution.workflow or None,
            author=execution.created_by or None,
            claimed_by=execution.claimed_by,
            proof=execution.created_proof,
            message=f"of {reference['name']}" if reference.get("name") else None,
        )

    @classmethod
    def from_execution(cls, execution: ListedExecution) -> EntryAnswer:
        """The end of an execution: by whom, where somebody ended it, and why."""
        assert execution.finished_at is not None, "only those that have ended are listed"
        author, claimed_by, proof = execution.aborted_by or (None, None, None)
        cause = cause_of_execution(execution)
        return cls(
            at=execution.finished_at,
            source=EXECUTION,
            cluster=execution.cluster,
            type=execution.phase,
            execution=ExecutionIdAnswer.from_execution(execution),
            reason=execution.reason,
            cause=None if cause is None else cause.value,
            exit_code=execution.exit_code,
            given_up=GivenUpAnswer.from_execution(execution),
            author=author,
            claimed_by=claimed_by,
            proof=proof,
            message=execution.abort_cause or execution.reason_message or None,
        )


class TimelineGroupAnswer(Answer):
    """What one request did, or one command of several requests, as far as it is on a page."""

    at: Annotated[Time, Meta(description="Of its newest entry.")]
    since: Annotated[Time, Meta(description="Of its oldest entry.")]
    request_id: Annotated[str | None, Meta(description="Absent where none is kept; then it has one entry.")] = None
    author: str | None = None
    claimed_by: str | None = None
    proof: ProofField = None
    message: Annotated[str | None, Meta(description="Why, where all of its entries say the same.")] = None
    counts: Annotated[dict[str, int], Meta(description="Its entries, by their sources.")]
    entries: Annotated[list[EntryAnswer], Meta(description="Newest first.")]

    @classmethod
    def from_entries(cls, entries: Sequence[EntryAnswer]) -> TimelineGroupAnswer:
        newest = entries[0]
        return cls(
            at=newest.at,
            since=entries[-1].at,
            request_id=newest.request_id,
            author=newest.author,
            claimed_by=newest.claimed_by,
            proof=newest.proof,
            message=newest.message if len({entry.message for entry in entries}) == 1 else None,
            counts=dict(Counter(entry.source for entry in entries)),
            entries=list(entries),
        )


def by_request(entries: Iterable[EntryAnswer]) -> list[TimelineGroupAnswer]:
    """Entries joined by the requests that made them: callers choose the ids, so only those of one author are joined."""
    groups: dict[object, list[EntryAnswer]] = {}
    for position, entry in enumerate(entries):
        author = (entry.author, entry.claimed_by, entry.proof)
        groups.setdefault((entry.request_id, author) if entry.request_id else position, []).append(entry)
    return [TimelineGroupAnswer.from_entries(group) for group in groups.values()]


class TimelineAnswer(SeenAnswer):
    entries: list[EntryAnswer]
    groups: Annotated[
        list[TimelineGroupAnswer] | None,
        Meta(description="With by=request, newest first; one may go on, with the same id, on the next page."),
    ] = None
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None
    unknown_names: UnknownNames = None
    not_listed: Annotated[
        str | None, Meta(description="On the last page: what was pruned, and is not among the entries for that.")
    ] = None

    @classmethod
    def from_page(cls, page: TimelinePage, by: str | None = None) -> TimelineAnswer:
        position = page.next_position
        entries = [EntryAnswer.from_entry(entry) for entry in page.entries]
        return cls(
            entries=[] if by else entries,
            groups=by_request(entries) if by else None,
            token=token_of(None if position is None else _key(position)),
            unknown_names=UnknownNameAnswer.from_unknown(page.unknown_names),
            not_listed=page.not_listed,
        )
