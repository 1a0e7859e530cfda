"""Which clusters changes of pools and labels are about, and which joined or left."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from admin.core.changes import RowChange
from admin.core.fleet.memberships import (
    MemberChanges,
    joining_revisions,
    member_changes,
    membership_changes,
    regrouped_clusters,
    regroupings,
)
from admin.core.provenance import Provenance
from admin.core.settings.scopes import PLATFORM

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def defined(letters: str | None, weight: int = 1) -> dict[str, Any] | None:
    """A definition of which each letter is a member; None for none."""
    return None if letters is None else {"members": [{"id": letter, "weight": weight} for letter in letters]}


def test_a_change_is_about_the_members_before_and_after_if_they_differ() -> None:
    def clusters(before: Any, after: Any, kind: str = "POOL", name: str = "p") -> str:
        change = RowChange(kind=kind, name=name, scope=PLATFORM, before=before, after=after)
        return "".join(sorted(regrouped_clusters(change)))

    assert clusters(defined("ab"), defined("bc")) == "abc"
    assert clusters(None, defined("ab"), kind="LABEL") == clusters(defined("ab"), None) == "ab"
    assert clusters(defined("ab"), defined("ab", weight=2)) == "ab"
    assert clusters(defined("ab"), {**(defined("ab") or {}), "description": "d"}) == ""
    assert clusters(defined("ab"), None, kind="CLUSTER") == ""
    assert clusters({"members": "ab"}, None, name="") == "", "an attribute of a kind that is called so"


def test_who_joined_and_left_a_pool_is_found_among_its_changes() -> None:
    def changes(*definitions: str | None) -> MemberChanges:
        """By definitions of which each letter is a member, and None is no pool; each is a revision."""
        return member_changes(
            (
                RowChange(kind="POOL", name="p", scope=PLATFORM, before=before, after=after),
                Provenance(author="ana", claimed_by=None, at=NOW, message=None, revision=number),
            )
            for number, (before, after) in enumerate(pairwise(map(defined, definitions)), 1)
        )

    def revisions(*definitions: str | None) -> tuple[dict[str, int | None], dict[str, int | None]]:
        joined, left = changes(*definitions)
        return ({name: by.revision for name, by in joined.items()}, {name: by.revision for name, by in left.items()})

    assert revisions("ab", "bc") == ({"c": 1}, {"a": 1})
    assert revisions(None, "ab") == ({}, {}), "the first members of a new pool"
    assert revisions("ab", "b", "ab") == ({"a": 2}, {}), "it is back"
    assert revisions("a", "ab", "a") == ({"b": 1}, {"b": 2})
    assert revisions("ab", None, "bc") == ({"c": 2}, {"a": 2}), "deleted, and defined again"
    assert changes("a", "ab", "a").describe("b") == [
        "joined the pool by revision 1, ana, at 2026-03-01T00:00:00Z",
        "left the pool by revision 2, ana, at 2026-03-01T00:00:00Z",
    ]


def test_the_last_coming_or_leaving_of_each_cluster_counts() -> None:
    def change(revision: int, before: str | None, after: str | None) -> RowChange:
        payload = defined(after, weight=revision)
        return RowChange(
            kind="POOL", name="gpu", scope=PLATFORM, before=defined(before), after=payload, revision=revision
        )

    changes = [
        change(10, "ab", None),
        change(9, "ab", "ab"),
        change(8, "a", "ab"),
        change(7, "ac", "a"),
        change(6, None, "ac"),
    ]
    assert membership_changes(changes) == {"a": 10, "b": 10, "c": 7}
    assert membership_changes(changes[1:]) == {"a": 6, "b": 8, "c": 7}
    assert joining_revisions(changes[1:]) == {"a": 6, "b": 8}, "not the last revision of the pool, nor who has left"
    assert joining_revisions(changes) == joining_revisions([]) == {}


def test_weights_are_compared_to_the_last_digit_and_the_order_counts_where_clusters_spill() -> None:
    def differences(before: Any, after: Any) -> list[str]:
        change = RowChange(kind="POOL", name="p", scope=PLATFORM, before=before, after=after)
        made_by = Provenance(revision=2, author="ana", claimed_by=None, at=NOW, message=None)
        return [regrouping.change for regrouping in regroupings([(change, made_by)])]

    assert differences(defined("a", 1000001), defined("a", 1000002)) == ["weight of a 1000001 -> 1000002"]
    spilling = [{**(defined(letters) or {}), "strategy": "spill"} for letters in ("ab", "ba")]
    assert differences(*spilling) == ["order a, b -> b, a"]
    assert differences(defined("ab"), defined("ba")) == []
    by_rules = [{**(defined("a") or {}), "strategy": "constraint", "rules": [{"sort": name}]} for name in ("x", "y")]
    assert differences(*by_rules) == ["other rules"]
