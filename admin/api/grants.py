"""Grants over HTTP, and who may do what."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.permissions import SIGNED_IN
from admin.messages.grants import (
    AccessAnswer,
    AccessExplanationAnswer,
    AccessQuery,
    ExplainAccessQuery,
    GrantAnswer,
    GrantBody,
    GrantsAnswer,
    GrantsQuery,
    GrantWritten,
    RolesAnswer,
    grant_filter,
    grantee_of,
    scope_of,
)
from admin.messages.held_access import HeldAccessAnswer, HeldAccessQuery, held_key
from admin.messages.pages import key_of, parse_number, token_of, wrong_token
from admin.messages.requests import AuthorshipFields, Fields, WriteQuery
from admin.messages.shared import Json, to_json
from admin.services import grants, held_access
from admin.services.changeable.grants import read_definition
from admin.services.changes import Changed

operations = Operations("grants")


@operations.add("GET", "/roles", permission=SIGNED_IN)
def list_roles() -> RolesAnswer:
    """List the roles, and the permissions that they consist of."""
    return RolesAnswer.from_roles(grants.list_roles(context()))


@operations.add("GET", "/grants", query=GrantsQuery, shows_some=True, permission="grants.read")
def list_grants(query: Fields) -> GrantsAnswer:
    """List grants: all of them, or those on a scope and below it."""
    after = key_of(query.get("token"), 1)
    views, last = grants.list_grants(context(), grant_filter(query), after[0] if after else None, query["limit"])
    return GrantsAnswer(
        grants=[GrantAnswer.from_view(view) for view in views], token=token_of((last,)) if last else None
    )


@operations.add("GET", "/grants/<rest:name>", shows_some=True, permission="grants.read", errors=(404,))
def get_grant(name: str) -> GrantAnswer:
    """Read a grant."""
    return GrantAnswer.from_view(grants.get_grant(context(), name))


@operations.add("POST", "/grants", query=WriteQuery, body=GrantBody, permission="grants.write", errors=(409,))
def create_grant(query: Fields, body: Fields) -> GrantWritten:
    """Give a role to a user or group on a scope."""
    grant = read_definition(context(), body["grant"], "grant")
    return _written(grants.create_grant(context(), grant, change_options(query, body)))


@operations.add(
    "DELETE",
    "/grants/<rest:name>",
    query=WriteQuery,
    body=AuthorshipFields,
    body_optional=True,
    permission="grants.write",
    shows_some=True,
    errors=(409,),
    headers=WRITE_HEADERS,
)
def delete_grant(name: str, query: Fields, body: Fields) -> GrantWritten:
    """Take a role away."""
    return _written(grants.delete_grant(context(), name, expectation(), change_options(query, body)))


@operations.add("GET", "/access", query=AccessQuery, permission="grants.read", errors=(404,))
def get_access(query: Fields) -> AccessAnswer:
    """Who may do what at a scope: the grants that reach it."""
    key = key_of(query.get("token"), 2)
    after = None if key is None else (parse_number(key[0], wrong_token()), key[1])
    access, last = grants.access_at(context(), scope_of(query), after, query["limit"])
    return AccessAnswer.from_access(access, token=token_of(last))


@operations.add("GET", "/access/held", query=HeldAccessQuery, own="user", shows_some=True, permission="grants.read")
def get_held_access(query: Fields) -> HeldAccessAnswer:
    """What a user or group may do over all scopes and which clusters it may use: by which grants, through whom."""
    held = held_access.held_access(
        context(), grantee_of(query), scope_of(query), held_key(query.get("token")), query["limit"]
    )
    return HeldAccessAnswer.from_held(held)


@operations.add(
    "GET", "/access/explanation", query=ExplainAccessQuery, own="user", permission="grants.read", errors=(404,)
)
def explain_access(query: Fields) -> AccessExplanationAnswer:
    """Whether someone may do something at a scope: by which grant, or what is missing and who could give it."""
    explanation = grants.explain_access(context(), grantee_of(query), query["permission"], scope_of(query))
    return AccessExplanationAnswer.from_explanation(explanation)


def _written(changed: Changed) -> GrantWritten:
    return GrantWritten.from_changed(changed, grant=_definition(changed))


def _definition(changed: Changed) -> Json | None:
    """A grant after a change; in a plan only what is defined."""
    change = changed.rows[0].change
    if change.after is None:
        return None
    if changed.dry_run and changed.is_change:
        return {"name": change.name, **change.after}
    return to_json(GrantAnswer.from_view(grants.get_grant(context(), change.name)))
