"""Groups of users over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.definition_writes import DefinitionWrites
from admin.api.operations import Operations
from admin.messages.pages import key_of, token_of
from admin.messages.requests import Fields, PageQuery
from admin.messages.user_groups import GroupBody, GroupWritten, UserGroupAnswer, UserGroupsAnswer
from admin.services import user_groups

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


DefinitionWrites(
    path="/groups",
    noun="group",
    title="a group of users",
    permission="groups.write",
    body=GroupBody,
    written=GroupWritten,
    create=user_groups.create_group,
    put=user_groups.put_group,
    read=get_group,
).add_to(operations)
