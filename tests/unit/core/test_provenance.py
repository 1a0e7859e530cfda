from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from admin.core.identities import Identity, Proof
from admin.core.provenance import Actor, Provenance, show_name

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def test_a_name_that_is_only_claimed_stands_beside_the_author() -> None:
    assert show_name("anonymous", "otto") == "anonymous (says otto)"
    assert show_name("ana", None) == "ana"
    assert str(Actor.of_stored("otto", None)) == "anonymous (says otto)"
    assert str(Actor.of_stored("anonymous", None)) == "anonymous"
    assert str(Actor.of_stored("otto", "shared-token")) == "shared-token (says otto)"
    assert str(Actor.of_stored("ana", "ana", "token")) == "ana"


@pytest.mark.parametrize(
    ("identity", "actor"),
    [
        (Identity(user="anonymous"), Actor("anonymous", "otto")),
        (Identity(user="anonymous", proof=Proof.SHARED_TOKEN), Actor("anonymous", "otto")),
        (Identity(user="shared-token", proof=Proof.SHARED_TOKEN), Actor("shared-token", "otto", "shared-token")),
        (Identity(user="ana", proof=Proof.TOKEN), Actor("ana", None, "token")),
        (Identity(user="ana@example.org", proof=Proof.OPENID), Actor("ana@example.org", None, "openid")),
        (Identity(user="cluster/east", proof=Proof.AGENT, cluster="east"), Actor("cluster/east", "otto")),
    ],
)
def test_a_claimed_name_is_kept_unless_a_user_is_proven(identity: Identity, actor: Actor) -> None:
    assert Actor.of_identity(identity, "otto") == actor
    assert actor.name == (actor.claimed_by or actor.author)
    assert Actor.of_stored(actor.name, actor.proven_author, actor.proof) == actor


def test_a_revision_and_an_event_are_described_with_author_time_and_message() -> None:
    set_by = Provenance(revision=41, author="ana", claimed_by=None, at=NOW - timedelta(days=3), message="cap\nmemory")
    assert set_by.describe(NOW) == "revision 41, ana, 3 d ago, 'cap memory'"
    undoing = Provenance(revision=42, author="ana", claimed_by=None, at=NOW, message=None, undone=41)
    assert undoing.describe(NOW) == "revision 42 (rollback of 41), ana, 0 s ago"
    assert Provenance.from_json(undoing.as_json()) == undoing
    restoring = Provenance(revision=42, author="ana", claimed_by=None, at=NOW, message=None, restored=0)
    assert restoring.describe(NOW) == "revision 42 (rollback to 0), ana, 0 s ago"
    cordoned_by = Provenance(event=7, author="anonymous", claimed_by="otto", at=NOW, message=None)
    assert cordoned_by.describe(NOW) == "event 7, anonymous (says otto), 0 s ago"


@pytest.mark.parametrize(
    ("identity", "proof", "name"),
    [
        (Identity(user="bea", proof=Proof.TOKEN, administrator="ada"), "token of ada", "bea (by ada)"),
        (Identity(user="bea", proof=Proof.OPENID, administrator="ada"), "openid of ada", "bea (by ada)"),
        (
            Identity(user="bea", proof=Proof.SHARED_TOKEN, administrator="shared-token"),
            "shared-token",
            "bea (by shared-token)",
        ),
        (Identity(user="ada", proof=Proof.TOKEN), "token", "ada"),
        (Identity(user="shared-token", proof=Proof.SHARED_TOKEN), "shared-token", "shared-token (says me)"),
    ],
)
def test_what_an_administrator_does_as_somebody_has_both_names(identity: Identity, proof: str, name: str) -> None:
    actor = Actor.of_identity(identity, "me")
    assert (actor.author, actor.proof, str(actor)) == (identity.user, proof, name)
