"""Grants: where they reach, what they give, and who may give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.grants import GRANTING, Grant, Grantee, Grants, read_grant
from admin.core.identities import Identity, Proof
from admin.core.narrowing import Narrowing
from admin.core.permissions import PERMISSIONS, ROLES, Place, Role
from admin.core.problems import Invalid
from admin.core.settings.scopes import PLATFORM, Level, Scope
from admin.core.user_groups import Memberships, UserGroup
from tests.unit.core.test_user_groups import GROUPS, USERS, groups_of_users, naive_groups

#: Roles beside the built-in ones: one that may give roles and little else, and one that gives nothing.
ALL_ROLES = {
    **ROLES,
    "granter": Role(name="granter", description="", permissions=frozenset({"grants.write", "executions.read"})),
    "nothing": Role(name="nothing", description="", permissions=frozenset()),
}
PATHS = [
    Scope(domain, project, workflow, launch_plan)
    for domain in ("", "development", "production")
    for project in ("", "a", "b")
    for workflow in ("", "train")
    for launch_plan in ("", "nightly")
    if not workflow or (domain and project)
    if not launch_plan or workflow
]
scopes = st.sampled_from(PATHS)
permissions = st.sampled_from(sorted(PERMISSIONS))
grantees = st.one_of(
    st.builds(Grantee, st.just("user"), st.sampled_from(USERS)),
    st.builds(Grantee, st.just("group"), st.sampled_from([*GROUPS, "absent"])),
)
grants = st.builds(Grant, role=st.sampled_from([*ALL_ROLES, "undeclared"]), grantee=grantees, scope=scopes)
identities = st.builds(
    Identity,
    user=st.sampled_from([*USERS, "stranger"]),
    groups=st.frozensets(st.sampled_from([*GROUPS, "absent"]), max_size=2),
    proof=st.just(Proof.TOKEN),
)


def to(name: str, role: str, *, noun: str = "user", **keys: str) -> Grant:
    return Grant(role=role, grantee=Grantee(noun, name), scope=Scope(**keys))


def all_grants(listed: list[Grant], groups: list[UserGroup] | None = None) -> Grants:
    return Grants(listed, Memberships(groups or []), ALL_ROLES)


def naive_permissions(listed: list[Grant], groups: list[UserGroup], identity: Identity, scope: Scope) -> frozenset[str]:
    """By the words of the rule: its keys are repeated, and the user or one of its groups has it."""
    within = naive_groups(groups, identity.user, identity.groups)
    given: set[str] = set()
    for grant in listed:
        noun, name = grant.grantee
        has = name == identity.user if noun == "user" else name in within
        if has and grant.scope.keys().items() <= scope.keys().items() and grant.role in ALL_ROLES:
            given |= ALL_ROLES[grant.role].permissions
    return frozenset(given)


@given(scopes, scopes)
def test_a_grant_reaches_the_scopes_whose_settings_it_would_apply_to(broad: Scope, scope: Scope) -> None:
    assert to("ada", "viewer", **broad._asdict()).reaches(scope) == (broad in {PLATFORM, *scope.chain()})


def test_a_grant_on_a_domain_does_not_reach_a_project_as_a_whole() -> None:
    grant = to("ada", "editor", domain="development")
    assert grant.reaches(Scope("development"))
    assert grant.reaches(Scope("development", "a"))
    assert grant.reaches(Scope("development", "a", "train", "nightly"))
    assert not grant.reaches(Scope("", "a"))
    assert not grant.reaches(Scope("production", "a"))
    assert not grant.reaches(PLATFORM)


def test_a_grant_on_a_project_reaches_it_in_every_domain() -> None:
    grant = to("ada", "editor", project="a")
    assert grant.reaches(Scope("", "a"))
    assert grant.reaches(Scope("development", "a", "train"))
    assert not grant.reaches(Scope("development"))
    assert not grant.reaches(Scope("development", "b"))


@given(st.lists(grants), groups_of_users(), identities, scopes)
def test_the_permissions_of_an_identity_at_a_scope(
    listed: list[Grant], groups: list[UserGroup], identity: Identity, scope: Scope
) -> None:
    every = all_grants(listed, groups)
    assert every.permissions(every.of(identity), scope) == naive_permissions(listed, groups, identity, scope)


@given(st.lists(grants), groups_of_users(), identities, permissions, scopes)
def test_something_is_allowed_by_grants_that_give_it_where_it_counts(
    listed: list[Grant], groups: list[UserGroup], identity: Identity, permission: str, scope: Scope
) -> None:
    every, place = all_grants(listed, groups), PERMISSIONS[permission].place
    places = PATHS if place is Place.ANYWHERE else [PLATFORM if place is Place.PLATFORM else scope]
    is_allowed = any(permission in naive_permissions(listed, groups, identity, at) for at in places)
    allowing = every.allowing(every.of(identity), permission, scope)
    assert bool(allowing) == is_allowed
    assert {*allowing} <= {*listed}
    specificities = [grant.scope.level.specificity for grant in allowing]
    assert specificities == sorted(specificities)


@given(
    st.lists(grants, unique=True),
    st.dictionaries(grants, st.booleans()),
    groups_of_users(),
    st.none() | groups_of_users(),
    identities,
)
def test_changed_grants_are_those_that_are_read_anew(
    listed: list[Grant],
    given: dict[Grant, bool],
    groups: list[UserGroup],
    other_groups: list[UserGroup] | None,
    identity: Identity,
) -> None:
    before = all_grants(listed, groups)
    held_before = before.held_by(identity)
    changed = before.changed(given, None if other_groups is None else Memberships(other_groups))
    left = [grant for grant in listed if grant not in given] + [grant for grant, is_given in given.items() if is_given]
    anew = all_grants(left, groups if other_groups is None else other_groups)
    assert {*changed.of(identity)} == {*anew.of(identity)}
    assert len(changed.of(identity)) == len(anew.of(identity))
    assert changed.administrators() == anew.administrators()
    assert changed.held_by(identity).everywhere == anew.held_by(identity).everywhere
    for permission in PERMISSIONS:
        assert changed.held_by(identity).scopes(permission) == anew.held_by(identity).scopes(permission)
    assert before.held_by(identity) is held_before
    assert {*before.of(identity)} == {*all_grants(listed, groups).of(identity)}


def test_what_others_hold_stays_sorted_when_the_grants_of_one_user_change() -> None:
    every = all_grants([to("ada", "viewer"), to("bea", "editor"), to("cyd", "editor")])
    bea, ada = every.held_by(Identity(user="bea")), every.held_by(Identity(user="ada"))
    assert every.held_by(Identity(user="cyd")) is bea  # since it is the same
    changed = every.changed({to("ada", "editor"): True})
    assert changed.held_by(Identity(user="bea")) is bea
    assert changed.held_by(Identity(user="ada")) is not ada


@given(st.lists(grants), groups_of_users(), identities, permissions, scopes)
def test_what_is_held_allows_the_same_by_lookups(
    listed: list[Grant], groups: list[UserGroup], identity: Identity, permission: str, scope: Scope
) -> None:
    every = all_grants(listed, groups)
    held, own = every.held_by(identity), every.of(identity)
    assert held.allows(permission, scope) == bool(every.allowing(own, permission, scope))
    assert every.held_by(identity) is held
    given_at = {grant.scope for grant in own if permission in every.gives(grant)}
    broadest = {
        place for place in given_at if not any(to("", "", **at._asdict()).reaches(place) for at in given_at - {place})
    }
    assert held.scopes(permission) == (None if PLATFORM in given_at else broadest)
    if PERMISSIONS[permission].place is Place.SCOPE:
        below = [place for place in PATHS if scope.keys().items() <= place.keys().items()]
        is_allowed_below = any(held.allows(permission, place) for place in below)
        assert held.allows_some(permission, scope) == is_allowed_below
    assert held.knows("a") == any(grant.scope.project in ("", "a") for grant in own)
    assert not all_grants([], groups).held_by(identity).knows("a")


narrowings = st.builds(
    Narrowing,
    role=st.sampled_from([None, *ALL_ROLES, "undeclared"]),
    permissions=st.lists(permissions, unique=True, max_size=3).map(tuple),
    scope=scopes,
    clusters=st.sampled_from([(), ("east",), ("east", "west")]),
)


@given(st.lists(grants), groups_of_users(), identities, narrowings, permissions, scopes)
def test_a_narrowed_token_may_do_what_both_its_user_and_its_narrowing_allow(
    listed: list[Grant],
    groups: list[UserGroup],
    identity: Identity,
    narrowing: Narrowing,
    permission: str,
    scope: Scope,
) -> None:
    every = all_grants(listed, groups)
    whole, narrow = every.held_by(identity), every.held_by(replace(identity, narrowed=narrowing))
    assert every.held_by(identity) is whole
    both = whole.allows(permission, scope) and narrowing.allows(permission, scope, ALL_ROLES)
    if PERMISSIONS[permission].place is Place.ANYWHERE:  # of which the scope of the grant must overlap the token's
        assert both or not narrow.allows(permission, scope)
    else:
        assert narrow.allows(permission, scope) == both
    assert narrow.permissions(scope) <= whole.permissions(scope)
    assert whole.allows_some(permission, scope) or not narrow.allows_some(permission, scope)
    seen = narrow.scopes(permission)
    if seen is None:
        assert whole.scopes(permission) is None
    else:
        assert all(whole.allows(permission, place) for place in seen if PERMISSIONS[permission].place is Place.SCOPE)
    for project in ("a", "b"):
        assert whole.knows(project) or not narrow.knows(project)
    for grant in listed:
        assert every.missing_to_give(whole, grant) <= every.missing_to_give(narrow, grant)


@given(narrowings, narrowings, permissions, scopes, st.sampled_from(["east", "west"]))
def test_a_narrowing_covers_only_what_is_within_it(
    wide: Narrowing, narrow: Narrowing, permission: str, scope: Scope, cluster: str
) -> None:
    assert wide.covers(wide, ALL_ROLES)
    assert not wide.covers(None, ALL_ROLES)
    if wide.covers(narrow, ALL_ROLES):
        assert wide.allows(permission, scope, ALL_ROLES) or not narrow.allows(permission, scope, ALL_ROLES)
        assert _may_use(wide, cluster) or not _may_use(narrow, cluster)


def _may_use(narrowing: Narrowing, cluster: str) -> bool:
    return narrowing.use is None or ("cluster", cluster) in narrowing.use


def test_who_has_every_permission_on_the_platform_is_refused_nothing() -> None:
    every = all_grants([to("ada", "admin"), to("otto", "admin", project="a")], [])
    assert every.held_by(Identity(user="ada")).is_everything
    assert not every.held_by(Identity(user="otto")).is_everything


@given(st.lists(grants), groups_of_users(), identities, grants, identities, scopes)
def test_nobody_gets_by_a_grant_what_its_giver_does_not_have(
    listed: list[Grant],
    groups: list[UserGroup],
    giver: Identity,
    given_: Grant,
    receiver: Identity,
    scope: Scope,
) -> None:
    every = all_grants(listed, groups)
    missing = every.missing_to_give(every.held_by(giver), given_)
    has = naive_permissions(listed, groups, giver, given_.scope)
    role = ALL_ROLES.get(given_.role)
    assert missing == ({GRANTING} | (role.permissions if role else set())) - has
    if not missing:
        before = naive_permissions(listed, groups, receiver, scope)
        after = naive_permissions([*listed, given_], groups, receiver, scope)
        assert after - before <= naive_permissions(listed, groups, giver, scope)


@given(st.lists(grants), groups_of_users(), identities, st.sampled_from(USERS), st.sampled_from(GROUPS), scopes)
def test_nobody_gets_by_a_group_what_the_one_who_adds_them_does_not_have(
    listed: list[Grant], groups: list[UserGroup], giver: Identity, user: str, name: str, scope: Scope
) -> None:
    every = all_grants(listed, groups)
    if every.missing_to_own(every.held_by(giver), Grantee("group", name)):
        return
    others = [group for group in groups if group.name != name]
    [group] = [group for group in groups if group.name == name] or [UserGroup(name=name)]
    joined = [*others, UserGroup(name=name, users=group.users | {user}, groups=group.groups)]
    receiver = Identity(user=user)
    before = naive_permissions(listed, groups, receiver, scope)
    after = naive_permissions(listed, joined, receiver, scope)
    assert after - before <= naive_permissions(listed, groups, giver, scope)


@given(st.lists(grants), groups_of_users())
def test_administrators_may_do_everything_everywhere(listed: list[Grant], groups: list[UserGroup]) -> None:
    everything = frozenset(PERMISSIONS)
    expected = {
        user for user in USERS if naive_permissions(listed, groups, Identity(user=user), PLATFORM) == everything
    }
    assert all_grants(listed, groups).administrators() == expected


@given(st.lists(grants), groups_of_users(), permissions, scopes)
def test_who_could_give_a_permission(
    listed: list[Grant], groups: list[UserGroup], permission: str, scope: Scope
) -> None:
    every = all_grants(listed, groups)
    at = PLATFORM if PERMISSIONS[permission].place is Place.PLATFORM else scope
    for noun, name in every.able_to_give(permission, scope):
        identity = Identity(user=name) if noun == "user" else Identity(user="", groups=frozenset({name}))
        assert {permission, GRANTING} <= naive_permissions(listed, groups, identity, at)


def test_the_roles_that_hold_a_permission() -> None:
    assert all_grants([]).roles_with("executions.create") == ["submitter", "editor", "admin"]
    assert all_grants([]).roles_with("fleet.write") == ["operator", "admin"]


def test_an_administrator_of_a_project_gives_roles_there_alone() -> None:
    every = all_grants([to("ada", "admin", project="a")])
    ada = every.held_by(Identity(user="ada"))
    assert not every.missing_to_give(ada, to("otto", "admin", project="a"))
    assert not every.missing_to_give(ada, to("otto", "editor", project="a", domain="development"))
    assert every.missing_to_give(ada, to("otto", "viewer", project="b")) == ROLES["viewer"].permissions | {GRANTING}
    assert every.missing_to_give(ada, to("otto", "viewer"))
    assert not ada.allows("users.write", Scope("", "a")), "which counts on the platform alone"


def test_an_editor_gives_nothing() -> None:
    every = all_grants([to("ada", "editor")])
    assert every.missing_to_give(every.held_by(Identity(user="ada")), to("otto", "viewer", project="a")) == {GRANTING}


def test_what_a_grant_is_called() -> None:
    assert to("ada", "admin").name == "admin:user:ada"
    assert to("ml", "viewer", noun="group", domain="production").name == "viewer:group:ml::production"
    assert to("ada@x.org", "editor", project="a").name == "editor:user:ada@x.org:a"
    full = to("ada", "editor", project="a", domain="d", workflow="core.train", launch_plan="nightly")
    assert full.name == "editor:user:ada:a:d:core.train:nightly"
    assert str(full) == "editor for user ada on launch-plan a/d/core.train/nightly"


@given(grants, grants)
def test_two_grants_with_one_name_are_the_same(grant: Grant, other: Grant) -> None:
    assert (grant.name == other.name) == (grant == other)


@given(st.builds(Grant, role=st.sampled_from([*ALL_ROLES]), grantee=grantees, scope=scopes))
def test_a_grant_is_read_from_its_definition(grant: Grant) -> None:
    assert read_grant(grant.payload, ALL_ROLES) == grant


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({}, ["role", "user"]),
        ({"role": "viewer"}, ["user"]),
        ({"role": "viewr", "user": "ada"}, ["role"]),
        ({"role": "viewer", "user": "ada", "group": "ml"}, ["group"]),
        ({"role": "viewer", "user": "a b"}, ["user"]),
        ({"role": "viewer", "user": None}, ["user"]),
        ({"role": "viewer", "user": "ada", "workflow": "w"}, ["project"]),
        ({"role": "viewer", "user": "ada", "project": "A B"}, ["project"]),
        ({"role": "viewer", "user": "ada", "scope": "a"}, ["scope"]),
        ({"role": 1, "user": "ada"}, ["role"]),
        (None, [""]),
        ("viewer", [""]),
    ],
)
def test_bad_definitions_are_refused_by_field(payload: Any, fields: list[str]) -> None:
    with pytest.raises(Invalid) as refusal:
        read_grant(payload)
    assert [problem.field for problem in refusal.value.problems] == fields


def test_an_unknown_role_is_refused_with_the_closest() -> None:
    with pytest.raises(Invalid, match=r"unknown role 'viewr'. Did you mean 'viewer'"):
        read_grant({"role": "viewr", "user": "ada"})


def test_a_hundred_thousand_grants() -> None:
    listed = [to(f"user{number}", "editor", project=f"p{number % 500}") for number in range(100_000)]
    every = all_grants(listed, [UserGroup(name="ml", users=frozenset({"user7"}))])
    held = every.of(Identity(user="user7"))
    assert held == [listed[7]]
    assert every.allowing(held, "attributes.write", Scope("development", "p7")) == [listed[7]]
    assert every.administrators() == frozenset()


def test_levels_are_covered() -> None:
    assert {scope.level for scope in PATHS} == set(Level)
