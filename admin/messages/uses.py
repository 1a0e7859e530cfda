"""Where something is used: what says it, what that reaches, and which executions were decided by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from marshmallow import fields
from msgspec import Meta

from admin.core.comparisons import COMPARISONS
from admin.core.executions.removals import NOUNS
from admin.core.problems import Invalid, Problem, dotted, invalid
from admin.core.settings.kinds import Kinds
from admin.core.settings.scopes import Level
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.granted_uses import UseGrantAnswer
from admin.messages.requests import SCOPE_KEY, Fields, Flag, OneOf, PageQuery, ResourceType
from admin.messages.shared import Answer, Json, ProvenanceAnswer, Revisions, ScopeAnswer, SeenAnswer
from admin.services.context import Context
from admin.services.token_uses import TOKEN_POOL, TokenRequest, TokenRequests
from admin.services.use_reach import Reached, RemovedReach
from admin.services.use_search import Ask, Use, ask_kind, ask_name
from admin.services.uses import Affected, Uses

#: What is asked about by its name.
_NAMED = (*NOUNS, TOKEN_POOL)
_KIND_FIELDS = ("resource_type", "field", "value", "comparison")


class UsesQuery(PageQuery):
    """One of a pool, label, cluster, queue, queue tag, token pool, and a kind with perhaps a field and its value."""

    pool = fields.String(validate=SCOPE_KEY)
    label = fields.String(validate=SCOPE_KEY)
    cluster = fields.String(validate=SCOPE_KEY)
    queue = fields.String(validate=SCOPE_KEY)
    queue_tag = fields.String(validate=SCOPE_KEY)
    token_pool = fields.String(validate=SCOPE_KEY)
    resource_type = ResourceType()
    field = fields.String(validate=SCOPE_KEY, metadata={"description": "The path of a field, such as limits.cpu."})
    value = fields.String(metadata={"description": "Of the field; as JSON unless it is text."})
    comparison = fields.String(
        validate=OneOf(list(COMPARISONS)),
        metadata={"description": "Asks for the amounts that compare so with the value, in place of that value."},
    )
    reach = Flag(load_default=False, metadata={"description": "With the scopes that have it, not only their number."})


def question_of(context: Context, query: Fields) -> Ask:
    """What a query asks about; Invalid unless that is one thing."""
    kinds: Kinds = context.settings.kinds
    named = [noun for noun in _NAMED if noun in query]
    if len(named) + any(key in query for key in _KIND_FIELDS) > 1:
        raise invalid(named[-1], "is asked about alone: leave out the others.")
    if named:
        return lambda connection: ask_name(context, connection, named[0], query[named[0]])
    if "resource_type" not in query:
        names = ", ".join(_NAMED)
        raise Invalid(Problem(field="resource_type", reason=f"is missing: name a kind, or one of {names}."))
    question = ask_kind(
        kinds.find(query["resource_type"]), query.get("field"), query.get("value"), query.get("comparison", "")
    )
    return lambda _connection: question


class UseAnswer(ScopeAnswer):
    """What says it: a key of the configuration, a row, or the definition of a launch plan."""

    level: Annotated[str, Meta(description="Of the row; platform, or launch-plan-definition.")]
    resource_type: str
    fields: Annotated[dict[str, Any], Meta(description="The fields that say it, with their values.")]
    version: Annotated[int | str | None, Meta(description="Of the row, or of the launch plan.")] = None
    revision: Annotated[int | None, Meta(description="The last one that set these fields.")] = None
    set_before: Annotated[
        int | None, Meta(description="The revision before which they were set, by one that is no longer kept.")
    ] = None
    key: Annotated[str | None, Meta(description="The configuration key.")] = None
    registered_by: Annotated[
        ProvenanceAnswer | None, Meta(description="Who registered the version of the launch plan, when and why.")
    ] = None

    @classmethod
    def from_use(cls, use: Use) -> UseAnswer:
        level = Level.PLATFORM.value if use.key else use.scope.level.value
        return cls.from_attributes(
            use,
            level=level if use.plan is None else "launch-plan-definition",
            resource_type=use.sought.kind.name,
            fields={dotted(path): value for path, value in use.leaves.items()},
            version=use.version if use.plan is None else use.plan.version,
            key=use.key or None,
            registered_by=use.registered_by and ProvenanceAnswer.from_attributes(use.registered_by),
        )


class ReachedAnswer(ScopeAnswer):
    """A scope that has it."""

    level: str
    resource_type: str
    refused: Annotated[bool, Meta(description="Whether executions there would be refused if it went away.")]
    waiting: Annotated[bool | None, Meta(description="Of a cluster: whether executions there would wait then.")] = None

    @classmethod
    def from_reached(cls, reached: Reached) -> ReachedAnswer:
        level = reached.scope.level.value
        return cls.from_attributes(
            reached,
            level=level,
            resource_type=reached.kind,
            refused=reached.is_refused,
            waiting=reached.is_waiting or None,
        )


class ReachCounts(Answer):
    """How many scopes have it, of those that a page has looked at."""

    scopes: int
    launch_plans: Annotated[int, Meta(description="Those of the scopes that are launch plans.")]
    refused: Annotated[int, Meta(description="Scopes whose executions would be refused if it went away, or are.")]
    waiting: Annotated[
        int | None, Meta(description="Of a cluster: scopes whose pool or label has no other, so that executions wait.")
    ] = None


def _count_reached(noun: str, reached: Sequence[Reached]) -> Json:
    """The fields of `ReachCounts`."""
    levels = Counter(place.scope.level for place in reached)
    return {
        "scopes": len(reached),
        "launch_plans": levels[Level.LAUNCH_PLAN],
        "refused": sum(place.is_refused for place in reached),
        "waiting": sum(place.is_waiting for place in reached) if noun == "cluster" else None,
    }


class RemovedReachAnswer(ReachCounts):
    """How many scopes would miss something that is removed."""

    noun: str
    name: str
    complete: Annotated[bool, Meta(description="Whether every scope was looked at, or only the first ones.")]

    @classmethod
    def from_removed(cls, removed: RemovedReach) -> RemovedReachAnswer:
        counts = _count_reached(removed.noun, removed.reached)
        return cls(noun=removed.noun, name=removed.name, complete=removed.is_complete, **counts)


class AffectedExecution(Answer):
    id: ExecutionIdAnswer
    phase: str
    waits_for_it: Annotated[
        bool | None, Meta(description="Of a cluster: true for one without a cluster whose request names it.")
    ] = None


class AffectedAnswer(Answer):
    """Executions that have not ended and were decided by it."""

    phases: Annotated[dict[str, int], Meta(description="How many there are by their phases.")]
    executions: Annotated[list[AffectedExecution], Meta(description="The newest of them, up to a hundred.")]
    complete: Annotated[bool, Meta(description="Whether all that have not ended were looked at, or only the newest.")]
    waiting_for_it: Annotated[
        int | None, Meta(description="Of a cluster: how many have no cluster and name it in their requests.")
    ] = None

    @classmethod
    def from_affected(cls, affected: Affected) -> AffectedAnswer:
        executions = [
            AffectedExecution(
                id=ExecutionIdAnswer.from_execution(execution),
                phase=execution.phase,
                waits_for_it=(affected.waiting_for is not None and execution.cluster is None) or None,
            )
            for execution in affected.executions
        ]
        return cls(
            phases=dict(affected.phases),
            executions=executions,
            complete=affected.is_complete,
            waiting_for_it=affected.waiting_for,
        )


class TokenRequestAnswer(ScopeAnswer):
    """What asks for tokens: a task type of the configuration, an active launch plan, or a workflow's newest version."""

    level: Annotated[str, Meta(description="platform, launch-plan, or workflow.")]
    amount: Annotated[int, Meta(description="How many tokens its runs need; 0 takes back what a job or type says.")]
    version: Annotated[str | None, Meta(description="Of the launch plan or workflow.")] = None
    key: Annotated[str | None, Meta(description="The configuration key, where that says how many.")] = None
    workflow_version: Annotated[
        str | None, Meta(description="Of a launch plan: the version of the workflow whose job says how many.")
    ] = None
    refused: Annotated[bool, Meta(description="Whether its executions would be refused if the pool went away, or are.")]

    @classmethod
    def from_request(cls, request: TokenRequest) -> TokenRequestAnswer:
        workflow = request.run_workflow
        return cls.from_attributes(
            request,
            level=request.scope.level.value,
            workflow_version=None if workflow is None else workflow.version,
            refused=request.is_refused,
        )


class TokenRequestsAnswer(Answer):
    """What asks for tokens of a pool, of what the caller may see."""

    requests: Annotated[list[TokenRequestAnswer], Meta(description="The first hundred of them.")]
    launch_plans: Annotated[int, Meta(description="How many active launch plans ask for it.")]
    workflows: Annotated[int, Meta(description="How many workflows ask for it by their newest versions.")]
    refused: Annotated[
        int, Meta(description="How many of both have executions that would be refused if it went away, or are.")
    ]
    complete: Annotated[bool, Meta(description="Whether all were looked at, or only the first thousand.")]

    @classmethod
    def from_requests(cls, requests: TokenRequests) -> TokenRequestsAnswer:
        return cls(
            requests=[TokenRequestAnswer.from_request(request) for request in requests.first],
            launch_plans=requests.launch_plans,
            workflows=requests.workflows,
            refused=requests.refused,
            complete=requests.is_complete,
        )


class UsesAnswer(SeenAnswer):
    noun: str
    name: str
    known: bool
    closest: list[str] | None = None
    deleted_by: Annotated[
        ProvenanceAnswer | None, Meta(description="The revision that deleted it, if it is not there and that is known.")
    ] = None
    pools: Annotated[list[str] | None, Meta(description="That a cluster is in.")] = None
    labels: Annotated[list[str] | None, Meta(description="That a cluster is in.")] = None
    revision: int
    uses: list[UseAnswer]
    reach: Annotated[ReachCounts, Meta(description="Of this page.")]
    scopes: Annotated[list[ReachedAnswer] | None, Meta(description="Those of this page, if they were asked for.")] = (
        None
    )
    executions: Annotated[AffectedAnswer | None, Meta(description="On the first page.")] = None
    use_grants: Annotated[
        list[UseGrantAnswer] | None,
        Meta(
            description="Of a pool, label or cluster on the first page, to who may read them: the first hundred on it, "
            "or on a group of clusters that has it."
        ),
    ] = None
    use_grant_count: Annotated[int | None, Meta(description="How many of these there are.")] = None
    token_requests: Annotated[TokenRequestsAnswer | None, Meta(description="Of a token pool, on the first page.")] = (
        None
    )
    revisions: Revisions = None
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None

    @classmethod
    def from_uses(cls, uses: Uses, token: str | None, *, with_scopes: bool) -> UsesAnswer:
        question, reached, granted, requests = uses.question, uses.reached, uses.granted, uses.token_requests
        is_cluster = question.noun == "cluster"
        return cls(
            noun=question.noun,
            name=question.name,
            known=question.is_known,
            closest=list(uses.closest) or None if question.is_known else list(question.closest),
            deleted_by=None if uses.deleted_by is None else ProvenanceAnswer.from_attributes(uses.deleted_by),
            pools=list(question.pools) if is_cluster else None,
            labels=list(question.labels) if is_cluster else None,
            revision=uses.revision,
            uses=[UseAnswer.from_use(use) for use in uses.uses],
            reach=ReachCounts(**_count_reached(question.noun, reached)),
            scopes=[ReachedAnswer.from_reached(place) for place in reached] if with_scopes else None,
            executions=None if uses.affected is None else AffectedAnswer.from_affected(uses.affected),
            use_grants=None if granted is None else [UseGrantAnswer.from_view(view) for view in granted.views],
            use_grant_count=None if granted is None else granted.count,
            token_requests=None if requests is None else TokenRequestsAnswer.from_requests(requests),
            revisions=ProvenanceAnswer.by_number(uses.provenance),
            token=token,
        )
