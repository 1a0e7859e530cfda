"""Use grants over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.messages.granted_uses import UseGrantAnswer
from admin.messages.pages import key_of, token_of
from admin.messages.requests import AuthorshipFields, Fields, WriteQuery
from admin.messages.shared import Json, to_json
from admin.messages.use_grants import (
    UseGrantBody,
    UseGrantsAnswer,
    UseGrantsQuery,
    UseGrantWritten,
    use_grant_filter,
)
from admin.services import use_grants
from admin.services.changeable.use_grants import read_use_grant_definition
from admin.services.changes import Changed

operations = Operations("use_grants")


@operations.add("GET", "/use_grants", query=UseGrantsQuery, permission="use_grants.read")
def list_use_grants(query: Fields) -> UseGrantsAnswer:
    """List who may use which clusters."""
    after = key_of(query.get("token"), 1)
    start = after[0] if after else None
    views, last = use_grants.list_use_grants(context(), use_grant_filter(query), start, query["limit"])
    return UseGrantsAnswer(
        use_grants=[UseGrantAnswer.from_view(view) for view in views], token=token_of((last,)) if last else None
    )


@operations.add("GET", "/use_grants/<rest:name>", permission="use_grants.read", errors=(404,))
def get_use_grant(name: str) -> UseGrantAnswer:
    """Read a use grant."""
    return UseGrantAnswer.from_view(use_grants.get_use_grant(context(), name))


@operations.add(
    "POST", "/use_grants", query=WriteQuery, body=UseGrantBody, permission="use_grants.write", errors=(409,)
)
def create_use_grant(query: Fields, body: Fields) -> UseGrantWritten:
    """Let a user, group or project use a cluster, cluster group, pool or label."""
    grant = read_use_grant_definition(body["use_grant"], "use_grant")
    return _written(use_grants.create_use_grant(context(), grant, change_options(query, body)))


@operations.add(
    "DELETE",
    "/use_grants/<rest:name>",
    query=WriteQuery,
    body=AuthorshipFields,
    body_optional=True,
    permission="use_grants.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def delete_use_grant(name: str, query: Fields, body: Fields) -> UseGrantWritten:
    """Take a use grant away."""
    return _written(use_grants.delete_use_grant(context(), name, expectation(), change_options(query, body)))


def _written(changed: Changed) -> UseGrantWritten:
    return UseGrantWritten.from_changed(changed, use_grant=_definition(changed))


def _definition(changed: Changed) -> Json | None:
    """A use grant after a change; in a plan only what is defined."""
    change = changed.rows[0].change
    if change.after is None:
        return None
    if changed.dry_run and changed.is_change:
        return {"name": change.name, **change.after}
    return to_json(UseGrantAnswer.from_view(use_grants.get_use_grant(context(), change.name)))
