"""Groups of users: members, members of members, circles, and groups that nobody has defined."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.problems import Invalid
from admin.core.user_groups import Memberships, UserGroup, group_of, read_group

USERS = ["ada", "otto", "mia", "cluster/east"]
GROUPS = ["ml", "interns", "staff", "ops"]


@st.composite
def groups_of_users(draw: st.DrawFn) -> list[UserGroup]:
    """Some of the groups, which may name each other in circles, and groups that are not defined."""
    names = draw(st.lists(st.sampled_from(GROUPS), unique=True))
    return [
        UserGroup(
            name=name,
            users=draw(st.frozensets(st.sampled_from(USERS))),
            groups=draw(st.frozensets(st.sampled_from([*GROUPS, "absent"]))),
        )
        for name in names
    ]


def naive_groups(groups: list[UserGroup], user: str, named: frozenset[str] = frozenset()) -> set[str]:
    """Adds every group that has the user or one of its groups, until nothing is added."""
    within = set(named)
    while True:
        more = {group.name for group in groups if user in group.users or group.groups & within} - within
        if not more:
            return within
        within |= more


@given(groups_of_users(), st.sampled_from(USERS), st.frozensets(st.sampled_from([*GROUPS, "absent", "claimed"])))
def test_the_groups_of_a_user(groups: list[UserGroup], user: str, named: frozenset[str]) -> None:
    memberships = Memberships(groups)
    assert memberships.groups_of(user, named) == naive_groups(groups, user, named)


@given(groups_of_users(), st.sampled_from([*GROUPS, "absent"]))
def test_the_users_of_a_group_are_those_who_are_in_it(groups: list[UserGroup], name: str) -> None:
    memberships = Memberships(groups)
    assert memberships.users_of(name) == {user for user in USERS if name in naive_groups(groups, user)}


@given(groups_of_users(), st.sampled_from([*GROUPS, "absent"]), st.sampled_from([*GROUPS, "absent"]))
def test_a_path_leads_from_a_group_to_one_that_contains_it(groups: list[UserGroup], member: str, name: str) -> None:
    memberships = Memberships(groups)
    path = memberships.path_above(member, name)
    assert bool(path) == (name != member and name in memberships.groups_above([member]))
    if path:
        defined = {group.name: group for group in groups}
        assert path[-1] == name
        assert all(inner in defined[outer].groups for inner, outer in itertools.pairwise([member, *path]))


@given(groups_of_users(), st.sampled_from(USERS), st.sampled_from([*GROUPS, "absent"]))
def test_a_path_leads_from_a_user_to_a_group(groups: list[UserGroup], user: str, name: str) -> None:
    path = Memberships(groups).path(user, name)
    assert bool(path) == (name in naive_groups(groups, user))
    if path:
        defined = {group.name: group for group in groups}
        assert path[-1] == name
        assert user in defined[path[0]].users
        assert all(inner in defined[outer].groups for inner, outer in itertools.pairwise(path))


@given(groups_of_users())
def test_a_circle_is_found_where_a_group_contains_itself(groups: list[UserGroup]) -> None:
    memberships, defined = Memberships(groups), {group.name: group for group in groups}
    for group in groups:
        contained: set[str] = set()
        waiting = set(group.groups)
        while waiting:
            name = waiting.pop()
            contained.add(name)
            waiting |= (defined[name].groups if name in defined else frozenset()) - contained
        circle = memberships.cycle(group.name)
        assert bool(circle) == (group.name in contained)
        if circle:
            assert circle[0] == circle[-1] == group.name
            assert all(inner in defined[outer].groups for outer, inner in itertools.pairwise(circle))


def test_a_long_chain_of_groups() -> None:
    chain = [UserGroup(name=f"g{place}", groups=frozenset({f"g{place + 1}"})) for place in range(5000)]
    memberships = Memberships([*chain, UserGroup(name="g5000", users=frozenset({"ada"}))])
    assert len(memberships.groups_of("ada")) == 5001
    assert len(memberships.path("ada", "g0")) == 5001
    assert memberships.users_of("g0") == {"ada"}


def test_a_definition_is_read_in_its_normal_form() -> None:
    payload = read_group("ml", {"users": ["otto", "ada@example.org"], "groups": [], "description": "Learning."})
    assert payload == {"users": ["ada@example.org", "otto"], "description": "Learning."}
    assert group_of("ml", payload) == UserGroup(name="ml", users=frozenset({"otto", "ada@example.org"}))
    assert read_group("ml", {}) == {}


@pytest.mark.parametrize(
    ("name", "payload", "fields"),
    [
        ("..", {}, ["name"]),
        ("a b", {"users": ["a b"]}, ["users.0", "name"]),
        ("ml", {"users": ["ada", "ada"]}, ["users"]),
        ("ml", {"groups": ["ml"]}, ["groups"]),
        ("ml", {"users": "ada"}, ["users"]),
        ("ml", {"users": None}, ["users"]),
        ("ml", {"user": ["ada"]}, ["user"]),
        ("ml", {"users": ["x" * 129]}, ["users.0"]),
        ("ml", None, [""]),
        ("ml", [], [""]),
    ],
)
def test_bad_definitions_are_refused_by_field(name: str, payload: object, fields: list[str]) -> None:
    with pytest.raises(Invalid) as refusal:
        read_group(name, payload)
    assert [problem.field for problem in refusal.value.problems] == fields


def test_agents_can_be_members() -> None:
    assert read_group("ml", {"users": ["cluster/east"]}) == {"users": ["cluster/east"]}
