"""Groups of users: who is in which, also as a member of a member."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admin.core import names
from admin.core.fields.branches import Section
from admin.core.fields.compounds import ListOf
from admin.core.fields.leaves import Text
from admin.core.problems import Problem, raise_problems, repeated
from admin.core.settings.kinds import Payload

#: The kind of a group's row.
GROUP = "GROUP"
_MOST_MEMBERS = 10_000

#: A user, or the agent of a cluster, which is called `cluster/NAME`.
USER_NAME = Text(
    pattern=rf"(?:cluster/{names.ENTITY_NAME}|{names.USER_NAME})",
    rule=names.USER_NAME_RULE,
    max_length=263,
    nullable=False,
)
GROUP_NAME = Text(pattern=names.USER_NAME, rule=names.USER_NAME_RULE, max_length=128, nullable=False)

DEFINITION = Section(
    fields={
        "users": ListOf(
            item=USER_NAME,
            min_items=0,
            max_items=_MOST_MEMBERS,
            unique=False,
            nullable=False,
            description="Its members.",
        ),
        "groups": ListOf(
            item=GROUP_NAME,
            min_items=0,
            max_items=_MOST_MEMBERS,
            unique=False,
            nullable=False,
            description="Groups whose members are its members too.",
        ),
        "description": Text(max_length=1000, nullable=False, description="For people."),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserGroup:
    """A group with its members."""

    name: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()  #: whose members are its members too


def read_group(name: str, payload: Any) -> Payload:
    """A group's definition in its normal form; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal: Payload = DEFINITION.read(payload, (), problems)
    if not names.is_user_name(name):
        problems.append(Problem(field="name", reason=f"is not a group's name: use {names.USER_NAME_RULE}."))
    if not problems:
        for field in ("users", "groups"):
            for member in repeated(normal.get(field, [])):
                problems.append(Problem(field=field, reason=f"'{member}' is listed twice: remove one."))
        if name in normal.get("groups", []):
            problems.append(Problem(field="groups", reason=f"'{name}' would be a member of itself: remove it."))
    raise_problems(problems)
    members = {field: sorted(normal[field]) for field in ("users", "groups") if normal.get(field)}
    return {**members, **{key: value for key, value in normal.items() if key == "description"}}


def group_of(name: str, payload: Mapping[str, Any]) -> UserGroup:
    """A group from its definition."""
    return UserGroup(name=name, users=frozenset(payload.get("users", ())), groups=frozenset(payload.get("groups", ())))


class Memberships:
    """Every group, asked from both sides. Groups that contain each other have the same members."""

    def __init__(self, groups: Iterable[UserGroup]) -> None:
        self._groups = {group.name: group for group in groups}
        self._of_user: dict[str, list[str]] = {}  #: the groups that name a user
        self._of_group: dict[str, list[str]] = {}  #: the groups that name a group, which need not exist
        for group in self._groups.values():
            for user in group.users:
                self._of_user.setdefault(user, []).append(group.name)
            for member in group.groups:
                self._of_group.setdefault(member, []).append(group.name)

    def __contains__(self, name: object) -> bool:
        """Whether a group is defined; one that only an identity or another group names is not."""
        return name in self._groups

    def groups_of(self, user: str, named: Iterable[str] = ()) -> frozenset[str]:
        """Every group that a user is in; `named` are those that the proof of the user's identity names."""
        return self.groups_above([*named, *self._of_user.get(user, ())])

    def groups_above(self, names: Iterable[str]) -> frozenset[str]:
        """Some groups, and every group that has one of them as a member, or as a member of a member."""
        return frozenset(_reachable(names, self._of_group))

    def users_of(self, name: str) -> frozenset[str]:
        """Every user in a group, also through other groups."""
        below = {group.name: list(group.groups) for group in self._groups.values()}
        groups = (self._groups.get(member) for member in _reachable([name], below))
        return frozenset(user for group in groups if group is not None for user in group.users)

    def path(self, user: str, group: str, named: Iterable[str] = ()) -> tuple[str, ...]:
        """The groups by which a user is in a group, its own first, that group last; () where it is not."""
        return self._path(sorted({*named, *self._of_user.get(user, ())}), group)

    def path_above(self, member: str, group: str) -> tuple[str, ...]:
        """The groups by which a group is in another one, without itself, that one last; () where it is not."""
        return self._path([member], group)[1:]

    def _path(self, starts: Sequence[str], group: str) -> tuple[str, ...]:
        """A shortest way from one of some groups up to a group, both included; () where there is none."""
        came_from = _reachable(starts, self._of_group)
        if group not in came_from:
            return ()
        path = [group]
        while (before := came_from[path[-1]]) is not None:
            path.append(before)
        return tuple(reversed(path))

    def cycle(self, name: str) -> tuple[str, ...]:
        """A way from a group through its members back to itself; () where there is none."""
        group = self._groups.get(name)
        below = {other.name: sorted(other.groups) for other in self._groups.values()}
        came_from = _reachable(sorted(group.groups) if group else (), below)
        if name not in came_from:
            return ()
        path = [name]
        while (before := came_from[path[-1]]) is not None:
            path.append(before)
        return (name, *reversed(path))


def _reachable(starts: Iterable[str], edges: Mapping[str, Iterable[str]]) -> dict[str, str | None]:
    """All that can be reached from some names, each with the one before it on a shortest way; None for a start."""
    came_from: dict[str, str | None] = dict.fromkeys(starts)
    waiting = deque(came_from)
    while waiting:
        name = waiting.popleft()
        for following in edges.get(name, ()):
            if following not in came_from:
                came_from[following] = name
                waiting.append(following)
    return came_from
