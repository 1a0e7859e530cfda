"""The fleet over HTTP: clusters, pools and labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from admin.api.current import caller, context
from admin.api.definition_writes import DefinitionWrites
from admin.api.operations import Operations
from admin.api.writes import actor
from admin.core.fleet.definitions import FleetKind
from admin.core.problems import invalid
from admin.messages.cluster_comparisons import ClusterComparisonAnswer, ClusterComparisonQuery
from admin.messages.cluster_events import ClusterEventAnswer, ClusterEventsAnswer, ClusterEventsQuery
from admin.messages.clusters import (
    ClusterAnswer,
    ClusterCountsAnswer,
    ClusterDetailsAnswer,
    ClusterListAnswer,
    ClustersQuery,
    ReportBody,
    ReportedAnswer,
)
from admin.messages.definitions import (
    ClusterWritten,
    DefinitionsPageQuery,
    LabelWritten,
    PoolWritten,
    WrittenAnswer,
    definition_body,
)
from admin.messages.groups import GroupAnswer, LabelListAnswer, PoolListAnswer
from admin.messages.pages import key_of, number_of, number_token, token_of
from admin.messages.past_definitions import DefinitionsAnswer, DefinitionsQuery
from admin.messages.requests import Fields, RequestSchema, WriteQuery
from admin.messages.selectors import with_times
from admin.messages.shared import Answer
from admin.messages.shares import SharesAnswer, SharesQuery
from admin.messages.switches import DrainBody, SwitchBody, SwitchedAnswer, SwitchedClustersAnswer, SwitchesBody
from admin.services import fleet, groups, past_definitions
from admin.services.cluster_comparisons import compare_clusters
from admin.services.shares import pool_shares
from admin.services.switches import Switched, switch_clusters

operations = Operations("fleet")

#: The window of shares where none is given.
_DEFAULT_WINDOW = timedelta(hours=1)


def _get(kind: FleetKind, name: str) -> ClusterAnswer | GroupAnswer:
    if kind is FleetKind.CLUSTER:
        return ClusterDetailsAnswer.from_details(fleet.get_cluster(context(), name))
    return GroupAnswer.from_view(groups.get_group(context(), kind, name))


def _list(kind: FleetKind, query: Fields, after: str, most: int) -> Sequence[ClusterAnswer | GroupAnswer]:
    paging: Any = {"after": after, "most": most}
    if kind is FleetKind.CLUSTER:
        views = fleet.list_clusters(
            context(),
            chosen=_chosen(query),
            state=query.get("state"),
            takes_work=query.get("takes_work"),
            **paging,
        )
        return [ClusterAnswer.from_view(view) for view in views]
    group_views = groups.list_groups(context(), kind, unused=query["unused"], **paging)
    return [GroupAnswer.from_view(view) for view in group_views]


def _chosen(query: Fields) -> fleet.ClusterFilter:
    return fleet.ClusterFilter(query.get("pool"), query.get("label"), query["search"], query["unused"])


def _counts(kind: FleetKind, query: Fields) -> Fields:
    """How many clusters are in each state; nothing of pools and labels."""
    if kind is not FleetKind.CLUSTER:
        return {}
    return {"counts": ClusterCountsAnswer(**fleet.count_clusters(context(), _chosen(query))._asdict())}


def _add_reads(kind: FleetKind, answer: type[Answer], list_answer: type[Answer]) -> None:
    """Listing and reading clusters, pools or labels."""
    noun, nouns = kind.noun, f"{kind.noun}s"

    @operations.add(
        "GET",
        f"/{nouns}",
        id=f"list_{nouns}",
        summary=f"List the {nouns}",
        query=ClustersQuery if kind is FleetKind.CLUSTER else DefinitionsPageQuery,
        answer=list_answer,
        errors=(404,),
        permission="fleet.read",
    )
    def list_all(query: Fields) -> Answer:
        [after] = key_of(query.get("token"), 1) or ("",)
        remaining = _list(kind, query, after, query["limit"] + 1)
        page = remaining[: query["limit"]]
        token = token_of((page[-1].name,)) if len(remaining) > len(page) else None
        return list_answer(**{nouns: page, "token": token}, **_counts(kind, query))

    @operations.add(
        "GET",
        f"/{nouns}/<name>",
        id=f"get_{noun}",
        summary=f"Read a {noun}",
        answer=answer,
        errors=(404,),
        permission="fleet.read",
    )
    def get(name: str) -> Answer:
        return _get(kind, name)


def _add_writes(kind: FleetKind, written: type[WrittenAnswer]) -> None:
    """Defining and deleting clusters, pools or labels."""
    DefinitionWrites(
        path=f"/{kind.noun}s",
        noun=kind.noun,
        title=f"a {kind.noun}",
        permission="fleet.write",
        body=definition_body(kind),
        written=written,
        create=lambda context, *write: fleet.create_definition(context, kind, *write),
        put=lambda context, *write: fleet.put_definition(context, kind, *write),
        read=lambda name: _get(kind, name),
    ).add_to(operations)


_add_reads(FleetKind.CLUSTER, ClusterDetailsAnswer, ClusterListAnswer)
_add_reads(FleetKind.POOL, GroupAnswer, PoolListAnswer)
_add_reads(FleetKind.LABEL, GroupAnswer, LabelListAnswer)
_add_writes(FleetKind.CLUSTER, ClusterWritten)
_add_writes(FleetKind.POOL, PoolWritten)
_add_writes(FleetKind.LABEL, LabelWritten)


@operations.add("GET", "/definitions", query=DefinitionsQuery, permission="fleet.read", errors=(404,))
def list_definitions(query: Fields) -> DefinitionsAnswer:
    """List the clusters, pools or labels as they were defined at a revision."""
    after = key_of(query.get("token"), 1)
    definitions = past_definitions.list_definitions(
        context(),
        FleetKind(query["resource_type"].upper()),
        at=query.get("at"),
        name=query.get("name"),
        after=after[0] if after else None,
        limit=query["limit"],
    )
    next_name = definitions.next_name
    return DefinitionsAnswer.from_definitions(definitions, token_of(None if next_name is None else (next_name,)))


@operations.add("GET", "/pools/<name>/shares", query=SharesQuery, permission="fleet.read", errors=(404,))
def get_pool_shares(name: str, query: Fields) -> SharesAnswer:
    """What a pool promises its clusters, against what was placed there, and why."""
    times = with_times(query, context().clock())
    before = times.get("before")
    after = times.get("after") or (before or context().clock()) - _DEFAULT_WINDOW
    return SharesAnswer.from_shares(pool_shares(context(), name, after, before, by=query.get("by")))


def _switch(word: str, summary: str, body_schema: type[RequestSchema] = SwitchBody) -> None:
    """An operation that switches a cluster, or tells what that would do."""

    @operations.add(
        "POST",
        f"/clusters/<name>/{word}",
        id=f"{word}_cluster",
        summary=summary,
        query=WriteQuery,
        body=body_schema,
        body_optional=True,
        errors=(404,),
        permission="clusters.switch",
    )
    def switch(name: str, query: Fields, body: Fields) -> SwitchedAnswer:
        return SwitchedAnswer.from_switched(_switch_clusters(word, [name], query, body))


def _switch_clusters(word: str, names: Sequence[str], query: Fields, body: Fields) -> Switched:
    return switch_clusters(
        context(),
        word,
        names,
        reason=body.get("reason"),
        by=actor(body),
        request_id=caller().request_id,
        deadline=context().clock() + body["deadline"] if "deadline" in body else None,
        dry_run=query["dry_run"],
    )


_switch("enable", "Let a cluster take part")
_switch("disable", "Take a cluster out of use")
_switch("cordon", "Give a cluster no new work")
_switch("uncordon", "Give a cluster work again")
_switch("drain", "Give a cluster no new work, and move what it has", DrainBody)
_switch("undrain", "Give a drained cluster work again")
_switch("admit", "Let a new cluster in that registered and waits")


@operations.add(
    "POST", "/cluster_switches", query=WriteQuery, body=SwitchesBody, permission="clusters.switch", errors=(404,)
)
def switch_several_clusters(query: Fields, body: Fields) -> SwitchedClustersAnswer:
    """Switch several clusters at once, all or none, or tell what that would do."""
    if "deadline" in body and body["switch"] != "drain":
        raise invalid("deadline", "is for `drain` only.")
    return SwitchedClustersAnswer.from_switched(_switch_clusters(body["switch"], body["clusters"], query, body))


@operations.add("PUT", "/clusters/<name>/state", body=ReportBody, permission="clusters.report", errors=(404,))
def report_cluster_state(name: str, body: Fields) -> ReportedAnswer:
    """Report what a cluster has, and what is free."""
    return ReportedAnswer.from_view(fleet.report_state(context(), name, body))


@operations.add(
    "GET", "/clusters/<name>/comparison", query=ClusterComparisonQuery, permission="fleet.read", errors=(404,)
)
def compare_two_clusters(name: str, query: Fields) -> ClusterComparisonAnswer:
    """What differs between two clusters."""
    return ClusterComparisonAnswer.from_clusters(*compare_clusters(context(), name, query["other"]))


@operations.add("GET", "/clusters/<name>/events", query=ClusterEventsQuery, permission="fleet.read", errors=(404,))
def list_cluster_events(name: str, query: Fields) -> ClusterEventsAnswer:
    """What happened to a cluster, newest first."""
    below = number_of(query.get("token"))
    page = fleet.list_events(context(), name, below, query["limit"], with_reports=query["reports"])
    answers = [ClusterEventAnswer.from_event(event, page.ended_by.get(event.number)) for event in page.events]
    return ClusterEventsAnswer(events=answers, token=number_token(page.last), left_out=page.left_out or None)
