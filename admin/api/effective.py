"""Effective attributes over HTTP: the merged value at a scope, where each leaf comes from, and the trail."""

from __future__ import annotations

from flask import Response
from sqlalchemy.exc import SQLAlchemyError

from admin.api.changes import MOST_BYTES
from admin.api.current import context
from admin.api.operations import Operations
from admin.core.problems import invalid
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope, check_scope
from admin.messages.changes import read_changes
from admin.messages.comparisons import ComparisonAnswer, ComparisonQuery
from admin.messages.effective import EffectiveAnswer, EffectiveQuery, ProposalBody
from admin.messages.pages import key_of, token_of
from admin.messages.reach import ReachAnswer, ReachQuery, scope_of_token
from admin.messages.requests import Fields
from admin.messages.scope_children import ScopesAnswer, ScopesQuery
from admin.messages.uses import UsesAnswer, UsesQuery, question_of
from admin.services.comparisons import ScopeAt, compare_scopes
from admin.services.effective import effective_attributes, stale_text
from admin.services.reach import find_reach
from admin.services.scope_children import list_children
from admin.services.uses import find_uses

#: The header of an answer from before the database went away: how many seconds ago it was true.
STALE = "Rainbow-Stale"
operations = Operations("effective attributes")


@operations.add("GET", "/effective_attributes", query=EffectiveQuery, permission="attributes.read", errors=(404,))
def get_effective_attributes(query: Fields) -> EffectiveAnswer | Response:
    """What applies at a scope, and why."""
    if query["nearest"] and "at" in query:
        raise invalid("nearest", "is about the rows of today, `at` about the past: leave out one of the two.")
    try:
        effective = effective_attributes(
            context(),
            _scope(query),
            _kinds(query),
            at=query.get("at"),
            with_provenance=query["provenance"],
            with_nearest=query["nearest"],
        )
    except SQLAlchemyError:
        kind = _kinds(query)[0] if "resource_type" in query else None
        stale = None if "at" in query else stale_text(context(), _scope(query), kind)
        if stale is None:
            raise
        return Response(stale.text, mimetype="application/json", headers={STALE: str(stale.seconds)})
    return EffectiveAnswer.from_effective(effective)


@operations.add(
    "POST",
    "/effective_attributes",
    body=ProposalBody,
    errors=(409,),
    permission="attributes.read",
    most_bytes=MOST_BYTES,
)
def propose_effective_attributes(body: Fields) -> EffectiveAnswer:
    """What would apply at a scope if some changes were made, and why."""
    proposed = read_changes(context(), body["changes"])
    effective = effective_attributes(context(), _scope(body), _kinds(body), proposed=proposed, with_provenance=True)
    return EffectiveAnswer.from_effective(effective)


@operations.add(
    "GET", "/effective_attributes/comparison", query=ComparisonQuery, permission="attributes.read", errors=(404,)
)
def compare_effective_attributes(query: Fields) -> ComparisonAnswer:
    """What differs between two scopes, or at one between two revisions."""
    other = {key: query[f"other_{key}"] for key in Scope._fields if f"other_{key}" in query}
    first = ScopeAt(scope=_scope(query), at=query.get("at"))
    second = ScopeAt(scope=_scope({**query, **other}), at=query.get("other_at"))
    return ComparisonAnswer.from_comparison(compare_scopes(context(), first, second, _kinds(query)))


@operations.add("GET", "/effective_attributes/reach", query=ReachQuery, permission="attributes.read", errors=(404,))
def get_reach(query: Fields) -> ReachAnswer:
    """Which scopes below a row follow it, and which say otherwise or the same again."""
    [kind] = _kinds(query)
    reach = find_reach(context(), kind, _scope(query), scope_of_token(query.get("token")), query["limit"])
    return ReachAnswer.from_reach(reach)


@operations.add("GET", "/scopes", query=ScopesQuery, shows_some=True, permission="attributes.read", errors=(404,))
def list_scopes(query: Fields) -> ScopesAnswer:
    """List the scopes right below one, each with the kinds that are set there."""
    key = key_of(query.get("token"), 1)
    after = None if key is None else key[0]
    children = list_children(context(), _scope(query), after=after, search=query["search"], limit=query["limit"])
    return ScopesAnswer.from_children(children)


@operations.add("GET", "/uses", query=UsesQuery, shows_some=True, permission="attributes.read", errors=(404,))
def get_uses(query: Fields) -> UsesAnswer:
    """Where a pool, label, cluster, queue, token pool, kind or value is used, and what would be refused without it."""
    ask = question_of(context(), query)
    uses = find_uses(context(), ask, key_of(query.get("token"), 9), query["limit"])
    return UsesAnswer.from_uses(uses, token_of(uses.next_key), with_scopes=query["reach"])


def _scope(fields: Fields) -> Scope:
    return check_scope(**{key: fields.get(key, "") for key in Scope._fields})


def _kinds(fields: Fields) -> list[Kind]:
    kinds = context().settings.kinds
    return [kinds.find(fields["resource_type"])] if "resource_type" in fields else [*kinds]
