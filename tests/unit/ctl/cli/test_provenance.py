from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ctl.cli.output import Printer
from ctl.cli.provenance import describe_field_origin, describe_revision, describe_setter, show_author, show_name
from ctl.client.scopes import Scope

REVISION = {"revision": 41, "author": "anonymous", "claimed_by": "ana", "at": "2026-03-04T12:00:00.5Z"}


@pytest.mark.parametrize(
    ("author", "claimed_by", "expected"),
    [
        ("anonymous", "otto", "anonymous (says otto)"),
        ("ana", None, "ana"),
        (None, None, ""),
    ],
)
def test_a_name_that_is_only_claimed_stands_beside_the_author(
    author: str | None, claimed_by: str | None, expected: str
) -> None:
    assert show_name(author, claimed_by) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"by": "otto", "author": "anonymous", "claimed_by": "otto"}, "anonymous (says otto)"),
        ({"by": "otto"}, "anonymous (says otto)"),
        ({"by": "anonymous"}, "anonymous"),
        ({"by": "ana", "author": "ana"}, "ana"),
        ({}, ""),
    ],
)
def test_an_author_is_shown_the_same_way_of_an_older_admin(document: dict[str, str], expected: str) -> None:
    assert show_author(document, "by") == expected


def test_a_revision_is_shown_with_its_age_and_in_wide_output_with_its_time() -> None:
    recent = (datetime.now(UTC) - timedelta(days=3, hours=4)).isoformat()
    revisions = {"41": {**REVISION, "at": recent, "message": "cap\nmemory"}}
    shown = describe_revision(Printer(), 41, revisions)
    assert shown == "revision 41, anonymous (says ana), 3 d 4 h ago, 'cap memory'"
    shown = describe_revision(Printer(format="wide"), 41, {"41": REVISION})
    assert shown == "revision 41, anonymous (says ana), 2026-03-04 12:00:00Z"


def test_a_rollback_says_what_it_rolled_back() -> None:
    wide, end = Printer(format="wide"), "anonymous (says ana), 2026-03-04 12:00:00Z"
    assert describe_revision(wide, 41, {"41": {**REVISION, "undone": 40}}) == f"revision 41 (rollback of 40), {end}"
    assert describe_revision(wide, 41, {"41": {**REVISION, "restored": 0}}) == f"revision 41 (rollback to 0), {end}"


def test_of_a_revision_that_the_answer_does_not_have_the_number_is_shown() -> None:
    assert describe_revision(Printer(), 41, {"40": REVISION}) == "revision 41, which is no longer kept"
    assert describe_revision(Printer(), 41, None) == "revision 41"
    assert describe_revision(Printer(), None, {}) == ""


def test_of_a_revision_that_is_no_longer_kept_the_rest_is_shown() -> None:
    pruned = {"41": {**REVISION, "kept": False}}
    shown = describe_revision(Printer(format="wide"), 41, pruned)
    assert shown == "revision 41, which is no longer kept, anonymous (says ana), 2026-03-04 12:00:00Z"


def test_an_origin_names_the_revision_of_its_field() -> None:
    revisions = {"41": {"revision": 41, "author": "ana"}, "44": {"revision": 44, "author": "bob"}}
    origin = {"level": "domain", "domain": "d", "version": 44}
    assert describe_setter(Printer(), {**origin, "revision": 41}, revisions) == "domain d (revision 41, ana)"
    shown = describe_setter(Printer(), {**origin, "set_before": 42}, revisions)
    assert shown == "domain d (before revision 42; its row was changed last by revision 44, bob)"
    shown = describe_setter(Printer(), {**origin, "set_before": 45}, revisions)
    assert shown == "domain d (revision 44, bob, or an earlier one)"
    here = Scope(domain="d")
    assert describe_field_origin(Printer(), {**origin, "revision": 41}, here, revisions) == "here (revision 41, ana)"
    assert describe_field_origin(Printer(), origin, here, {}) == "here (version 44)"
    assumed = {**origin, "version": 0, "assumed": True}
    assert describe_field_origin(Printer(), assumed, here, revisions) == "here (the given documents)"
    assert describe_field_origin(Printer(), assumed, here, {}) == "here (the given documents)"
    platform = {"level": "platform", "key": "k"}
    assert describe_field_origin(Printer(), platform, here, revisions) == "configuration (k)"
