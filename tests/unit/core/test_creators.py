"""What creators of executions may use: by use grants, and by what they may still do."""

from __future__ import annotations

import json

import pytest

from admin.core.creators import OVERRIDING, Creator, CreatorRights
from admin.core.grants import Grant, Grantee, Grants
from admin.core.identities import Identity, Proof
from admin.core.placement.routes import Route, RouteKind
from admin.core.problems import Invalid
from admin.core.settings.scopes import Scope
from admin.core.use_grants import (
    CREATOR_DELETED,
    MAY_NOT_CREATE,
    NOT_OF_TOKEN,
    Named,
    UsableClusters,
    UseGrant,
    UseGrants,
    read_use_grant,
)
from admin.core.user_groups import Memberships, UserGroup

SCOPE = Scope(project="p", domain="d")
ADA = Creator("ada", "token")


def use(target: str, grantee: str) -> UseGrant:
    """`pool:gpu` for `group:ml`."""
    nouns = [Named(*text.split(":")) for text in (target, grantee)]
    return UseGrant(target=nouns[0], grantee=nouns[1])


def rights(
    *uses: UseGrant,
    is_closed: bool = True,
    users: tuple[str, ...] = ("ada", "eve"),
    has_provider: bool = False,
    members: tuple[str, ...] = ("ada",),
) -> CreatorRights:
    """What creators may, of whom `members` of a group and bob may create executions."""
    submitters = [Grant(role="submitter", grantee=Grantee("group", "ml"), scope=Scope(project="p"))]
    submitters.append(Grant(role="submitter", grantee=Grantee("user", "bob")))
    memberships = Memberships([UserGroup(name="ml", users=frozenset(members))])
    named = {"racks": ["r1", "r2"]}
    proven = {"otto": frozenset({"ml"})}
    every, all_uses = Grants(submitters, memberships), UseGrants(uses, named)
    return CreatorRights(every, all_uses, users, proven, is_closed=is_closed, has_provider=has_provider)


def route(kind: str, name: str) -> Route:
    return Route(kind=RouteKind(kind), name=name, rungs=())


def test_a_user_may_use_what_is_granted_to_it_its_groups_and_the_project() -> None:
    every = rights(
        use("cluster:a", "user:ada"),
        use("cluster_group:racks", "group:ml"),
        use("cluster:b", "project:p"),
        use("cluster:c", "user:eve"),
        use("cluster:d", "project:q"),
    )
    usable = every.usable(ADA, SCOPE)
    assert usable is not None
    assert usable.clusters == {"a", "b", "r1", "r2"}
    assert usable.by(route("any", "")) == UsableClusters(frozenset({"a", "b", "r1", "r2"}))


def test_a_pool_or_label_covers_its_members_where_they_are_reached_through_it() -> None:
    usable = rights(use("pool:gpu", "user:ada"), use("label:spare", "user:ada")).usable(ADA, SCOPE)
    assert usable is not None
    assert usable.by(route("pool", "gpu")) is None
    assert usable.by(route("label", "spare")) is None
    for other in (route("pool", "cpu"), route("label", "gpu"), route("pool", "spare"), route("cluster", "gpu")):
        assert usable.by(other) == UsableClusters(frozenset())


def test_equal_rights_are_one_value_whoever_has_them() -> None:
    users = tuple(f"u{number}" for number in range(100))
    every = rights(*(use("cluster:a", f"user:{name}") for name in users), users=users)
    values = {id(every.granted(Creator(name, "token"), "p")) for name in users}
    assert len(values) == 1


@pytest.mark.parametrize(
    "creator", [Creator("anonymous"), Creator("shared-token", "shared-token"), Creator(""), Creator("unknown")]
)
def test_the_shared_token_and_whoever_nobody_asked_may_use_everything(creator: Creator) -> None:
    assert rights().usable(creator, SCOPE) is None


def test_an_agent_goes_by_grants_once_there_are_users() -> None:
    agent = Creator.of(Identity(user="cluster/east", proof=Proof.AGENT, cluster="east"))
    granted = use("cluster:a", "user:cluster/east")
    assert rights(granted, users=()).usable(agent, SCOPE) is None
    for is_closed in (True, False):
        ungranted = rights(granted, is_closed=is_closed).usable(agent, SCOPE)
        assert ungranted is not None
        assert ungranted.reason == MAY_NOT_CREATE
    members = ("ada", "cluster/east")
    assert rights(granted, is_closed=False, members=members).usable(agent, SCOPE) is None
    for every in (rights(granted, members=members), rights(granted, users=(), has_provider=True, members=members)):
        usable = every.usable(agent, SCOPE)
        assert usable is not None
        assert usable.clusters == {"a"}


def test_a_permission_is_given_by_grants_alone() -> None:
    every = rights()
    assert every.may(ADA, "executions.create", SCOPE)
    assert not every.may(ADA, OVERRIDING, SCOPE)
    for creator in (Creator("anonymous"), Creator("shared-token", "shared-token"), Creator("cluster/east")):
        assert not every.may(creator, OVERRIDING, SCOPE)


def test_a_user_whom_only_openid_knows_goes_by_use_grants_in_every_case() -> None:
    kim = Creator.of(Identity(user="kim", groups=frozenset({"ml"}), proof=Proof.OPENID))
    for users in ((), ("ada",)):
        usable = rights(use("cluster:a", "user:ada"), users=users, has_provider=True).granted(kim, "p")
        assert usable is not None
        assert usable.clusters == frozenset()


def test_what_may_be_used_in_some_projects_adds_up() -> None:
    every = rights(use("cluster:a", "project:p"), use("cluster:b", "project:q"), use("cluster:c", "user:ada"))

    def anywhere(projects: frozenset[str] | None) -> frozenset[str]:
        usable = every.granted_anywhere(ADA, projects)
        assert usable is not None
        return usable.clusters

    assert anywhere(frozenset()) == {"c"}
    assert anywhere(frozenset({"q"})) == {"b", "c"}
    assert anywhere(None) == {"a", "b", "c"}


def test_what_others_may_use_and_a_caller_may_not() -> None:
    every = rights(use("pool:gpu", "group:ml"), use("cluster:a", "user:ada"), use("cluster:a", "user:eve"))
    eve = Identity(user="eve", proof=Proof.TOKEN)
    assert every.missing_to_own(eve, Named("user", "ada")) == {Named("pool", "gpu")}
    assert every.missing_to_own(eve, Named("group", "ml")) == {Named("pool", "gpu")}
    assert every.missing_to_own(Identity(user="ada", proof=Proof.TOKEN), Named("user", "eve")) == frozenset()
    assert every.missing_to_own(eve, Named("user", "otto")) == {Named("pool", "gpu")}  # by what OpenID named last


@pytest.mark.parametrize("is_closed", [True, False])
def test_whoever_was_deleted_or_may_not_create_any_more_may_use_nothing(is_closed: bool) -> None:
    every = rights(use("cluster:a", "project:p"), is_closed=is_closed)
    deleted, other = every.usable(Creator("bob", "token"), SCOPE), every.usable(Creator("eve", "token"), SCOPE)
    assert deleted is not None
    assert (deleted.clusters, deleted.reason) == (frozenset(), CREATOR_DELETED)
    assert other is not None
    assert (other.clusters, other.reason) == (frozenset(), MAY_NOT_CREATE)
    elsewhere = every.usable(ADA, Scope(project="q", domain="d"))
    assert elsewhere is not None
    assert elsewhere.reason == MAY_NOT_CREATE
    assert (every.usable(ADA, SCOPE) is None) is not is_closed


def test_groups_of_openid_are_those_of_the_request_and_later_those_named_last() -> None:
    every = rights(use("pool:gpu", "group:ml"))
    now = every.usable(Creator("kim", "openid", groups=frozenset({"ml"})), SCOPE)
    later = every.usable(Creator("otto", "openid"), SCOPE)
    unknown = every.usable(Creator("kim", "openid"), SCOPE)
    assert now is later
    assert now is not None
    assert now.pools == {"gpu"}
    assert unknown is not None
    assert unknown.reason == MAY_NOT_CREATE


def test_open_use_grants_restrict_nobody() -> None:
    assert rights(use("cluster:a", "user:eve"), is_closed=False).usable(ADA, SCOPE) is None


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({}, {"cluster", "user"}),
        ({"pool": "gpu"}, {"user"}),
        ({"user": "ada"}, {"cluster"}),
        ({"pool": "gpu", "label": "x", "user": "ada"}, {"label"}),
        ({"pool": "gpu", "user": "ada", "project": "p"}, {"project"}),
        ({"pool": "g pu", "user": "ada"}, {"pool"}),
        ({"pool": "gpu", "user": "a b"}, {"user"}),
        ({"pool": "gpu", "project": "P"}, {"project"}),
        ({"pool": None, "user": "ada"}, {"pool"}),
        ({"pools": "gpu", "pool": "gpu", "user": "ada"}, {"pools"}),
        ("pool", {""}),
    ],
)
def test_a_use_grant_names_one_of_what_may_be_used_and_one_of_who_may(payload: object, fields: set[str]) -> None:
    with pytest.raises(Invalid) as refused:
        read_use_grant(payload)
    assert {problem.field for problem in refused.value.problems} == fields


def test_the_name_of_a_use_grant_is_what_it_consists_of() -> None:
    grant = read_use_grant({"cluster_group": "racks", "user": "cluster/east"})
    assert grant.name == "cluster_group:racks:user:cluster/east"
    assert read_use_grant(grant.payload) == grant


def test_a_token_for_clusters_keeps_its_executions_to_them() -> None:
    use_of = json.dumps([["cluster", "a"], ["cluster_group", "racks"]])
    for creator in (Creator("ada", "token", use_of), Creator("ada", "token of root", use_of)):
        opened = rights(is_closed=False).usable(creator, SCOPE)
        assert opened is not None
        assert opened.by(route("pool", "gpu")) == UsableClusters(frozenset({"a", "r1", "r2"}), NOT_OF_TOKEN)
        closed = rights(use("pool:gpu", "user:ada"), use("cluster:r1", "user:ada")).usable(creator, SCOPE)
        assert closed is not None
        assert closed.by(route("pool", "gpu")) == UsableClusters(frozenset({"a", "r1", "r2"}), NOT_OF_TOKEN)
        assert closed.by(route("any", "")) == UsableClusters(frozenset({"r1"}))


def test_what_was_created_as_somebody_goes_by_the_rights_of_that_user() -> None:
    for proof in ("token of root", "openid of root", "shared-token"):
        assert rights(is_closed=False).usable(Creator("ada", proof), SCOPE) is None
        deleted = rights(is_closed=False).usable(Creator("bob", proof), SCOPE)
        assert deleted is not None
        assert deleted.reason == CREATOR_DELETED
