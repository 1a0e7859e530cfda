"""Groups of users: define, list and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from admin.core.changes import Expectation
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Payload
from admin.core.user_groups import GROUP
from admin.errors import GroupNotFound
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.user_groups import group_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.named_rows import create_row, row_not_found
from admin.store import revisions, user_groups
from admin.store.user_groups import StoredGroup


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """A group, and the revision that defined it."""

    group: StoredGroup
    provenance: Provenance | None  #: None where that revision is no longer kept


def list_groups(context: Context, after: str | None, limit: int) -> tuple[list[GroupView], str | None]:
    """A page of groups by name, and the name after which the next page starts, if there is one."""
    with context.database.reading() as connection:
        groups = user_groups.page(connection, after=after, limit=limit + 1)
        made_by = revisions.provenance_of(connection, (group.version for group in groups))
    return _views(groups[:limit], made_by), groups[limit - 1].name if len(groups) > limit else None


def get_group(context: Context, name: str) -> GroupView:
    """One group; GroupNotFound with the closest names where there is none."""
    with context.database.reading() as connection:
        groups = user_groups.some(connection, [name])
        if name not in groups:
            raise row_not_found(context, connection, GroupNotFound, GROUP, name, user_groups.names(connection))
        [view] = _views([groups[name]], revisions.provenance_of(connection, [groups[name].version]))
    return view


def create_group(context: Context, name: str, payload: Payload, options: ChangeOptions) -> Changed:
    """Define a group; AlreadyExists where the name is taken."""
    return create_row(context, "group", group_write(name, payload, Expectation(absent=True)), options)


def put_group(
    context: Context, name: str, payload: Payload | None, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Define a group anew, or remove it; InUse where a grant or another group names it and force is not set."""
    return make_change(context, [group_write(name, payload, expectation)], options)


def _views(groups: Sequence[StoredGroup], made_by: dict[int, Provenance]) -> list[GroupView]:
    return [GroupView(group=group, provenance=made_by.get(group.version)) for group in groups]
