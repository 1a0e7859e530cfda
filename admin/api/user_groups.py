"""Groups of users over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.changes import read_named, read_named_as
from admin.messages.definitions import DefinitionDeleteQuery
from admin.messages.pages import key_of, token_of
from admin.messages.requests import AuthorshipFields, Fields, PageQuery, WriteQuery
from admin.messages.shared import Json, to_json
from admin.messages.user_groups import GroupBody, GroupWritten, UserGroupAnswer, UserGroupsAnswer
from admin.services import user_groups
from admin.services.changes import Changed

operations = Operations("groups")


@operations.add("GET", "/groups", query=PageQuery, permission="groups.read")
def list_groups(query: Fields) -> UserGroupsAnswer:
    """List the groups of users."""
    after = key_of(query.get("token"), 1)
    views, last = user_groups.list_groups(context(), after[0] if after else None, query["limit"])
    return UserGroupsAnswer(
        groups=[UserGroupAnswer.from_view(view) for view in views], token=token_of((last,)) if last else None
    )


@operations.add("GET", "/groups/<name>", permission="groups.read", errors=(404,))
def get_group(name: str) -> UserGroupAnswer:
    """Read a group of users."""
    return UserGroupAnswer.from_view(user_groups.get_group(context(), name))


@operations.add("POST", "/groups", query=WriteQuery, body=GroupBody, permission="groups.write", errors=(409,))
def create_group(query: Fields, body: Fields) -> GroupWritten:
    """Define a group of users."""
    name, payload = read_named(body["group"], "group")
    return _written(name, user_groups.create_group(context(), name, payload, change_options(query, body)))


@operations.add(
    "PUT",
    "/groups/<name>",
    query=WriteQuery,
    body=GroupBody,
    permission="groups.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def put_group(name: str, query: Fields, body: Fields) -> GroupWritten:
    """Define a group of users, or define it anew."""
    payload = read_named_as(name, body["group"], "group")
    return _written(name, user_groups.put_group(context(), name, payload, expectation(), change_options(query, body)))


@operations.add(
    "DELETE",
    "/groups/<name>",
    query=DefinitionDeleteQuery,
    body=AuthorshipFields,
    body_optional=True,
    permission="groups.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def delete_group(name: str, query: Fields, body: Fields) -> GroupWritten:
    """Delete a group of users."""
    return _written(name, user_groups.put_group(context(), name, None, expectation(), change_options(query, body)))


def _written(name: str, changed: Changed) -> GroupWritten:
    return GroupWritten.from_changed(changed, group=_definition(name, changed))


def _definition(name: str, changed: Changed) -> Json | None:
    """A group after a change; in a plan only what is defined."""
    after = changed.rows[0].change.after
    if after is None:
        return None
    if changed.dry_run and changed.is_change:
        return {"name": name, **after}
    return to_json(UserGroupAnswer.from_view(user_groups.get_group(context(), name)))
