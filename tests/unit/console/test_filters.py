"""What templates call."""

from __future__ import annotations

import pytest

from admin.console.filters import amount, amounts, size, ticking, who

SINCE = "2026-03-01T12:00:00Z"


@pytest.mark.parametrize(
    ("message", "start", "shown", "rest"),
    [
        ("RUNNING on east for 4 min 10 s: by <pool>.", "RUNNING on east for ", "4 min 10 s", ": by &lt;pool&gt;."),
        ("QUEUED for 0 s, first at east: full.", "QUEUED for ", "0 s", ", first at east: full."),
        ("TIMED_OUT 2 years 3 d ago: too late.", "TIMED_OUT ", "2 years ago", ": too late."),
        ("SUCCEEDED on east 5 s ago after 10 min: by x.", "SUCCEEDED on east ", "5 s ago", " after 10 min: by x."),
    ],
)
def test_the_age_of_a_phase_goes_on(message: str, start: str, shown: str, rest: str) -> None:
    span = ' data-span=""' if " for " in start else ""
    time = f'<time datetime="{SINCE}" title="{SINCE}" aria-live="off"{span}>{shown}</time>'
    assert ticking(message, SINCE) == f"{start}{time}{rest}"


def test_a_sentence_without_an_age_is_shown_as_it_is() -> None:
    assert ticking("QUEUED: in back-off <after> exit 1, next attempt in 5 s.", SINCE) == (
        "QUEUED: in back-off &lt;after&gt; exit 1, next attempt in 5 s."
    )


def test_bytes_are_told_in_one_notation() -> None:
    assert [amount(each, "memory") for each in ("24103Mi", "600Mi", 2**30, "0", "1500")] == [
        "23.54Gi",
        "600Mi",
        "1Gi",
        "0",
        "1.465Ki",
    ]
    assert (amount("1500m", "cpu"), size(2**20), size(12)) == ("1500m", "1 MiB", "12 B")
    assert (amount("8Ei", "memory"), amount(2**64, "memory")) == ("8Ei", str(2**64))
    assert amounts({"cpu": "2", "memory": "24103Mi", "nodes": 1}) == "2 cpu, 23.54Gi memory, 1 node"
    assert amounts({"nodes": 2, "ephemeral_storage": "10Gi"}) == "2 nodes, 10Gi ephemeral storage"


def test_who_did_something_is_told_as_in_sentences() -> None:
    assert who({"author": "anonymous", "claimed_by": "root"}) == "anonymous (says root)"
    assert who({"created_by": "ada"}) == "ada"
    assert who({"author": "bea", "proof": "token of ada"}) == "bea (by ada)"
    assert who({"claimed_by": "root"}) == "root"
    assert who({}) == ""
