"""Explanations for people."""

from __future__ import annotations

from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.commands.executions.explain import (
    _HISTORY_COLUMNS,
    _mentioned,
    decided_again,
    earlier_decision,
    show_candidates,
    show_non_candidates,
    show_why_not,
)

EVENT = {"event": 7, "author": "ana", "at": "2026-03-04T12:00:00Z", "message": "new disks"}
OTHER: dict[str, Any] = {
    "cluster": "oak",
    "why_not": "is disabled, event 7, ana, 3 d ago, 'new disks'; is not in pool 'gpu' as defined",
    "reasons": [{"reason": "is disabled", "provenance": EVENT}, {"reason": "is not in pool 'gpu' as defined"}],
}
CANDIDATE: dict[str, Any] = {
    "cluster": "elm",
    "weight": 1,
    "chosen": False,
    "why_not": "is cordoned, event 7, ana, 3 d ago, 'new disks'",
    "verdicts": [{"filter": "cordoned", "passed": False, "reason": "is cordoned (new disks)", "provenance": EVENT}],
}


def test_wide_output_has_times_where_a_cluster_was_no_candidate(capsys: pytest.CaptureFixture[str]) -> None:
    show_non_candidates(Printer(format="wide"), [OTHER])
    expected = "is disabled, event 7, ana, 2026-03-04 12:00:00Z, 'new disks'; is not in pool 'gpu' as defined"
    assert expected in capsys.readouterr().out
    show_non_candidates(Printer(), [OTHER])
    assert OTHER["why_not"] in capsys.readouterr().out
    of_an_older_admin = {key: value for key, value in OTHER.items() if key != "reasons"}
    show_non_candidates(Printer(format="wide"), [of_an_older_admin])
    assert OTHER["why_not"] in capsys.readouterr().out


def test_clusters_that_were_no_candidates_are_said_to_be_those_of_now(capsys: pytest.CaptureFixture[str]) -> None:
    show_non_candidates(Printer(), [OTHER], is_of_now=True)
    heading, table, *_ = capsys.readouterr().out.strip().splitlines()
    assert heading == "As the fleet is now, which may have changed since the decision:"
    assert table.startswith("NOT A CANDIDATE")
    show_non_candidates(Printer(), [OTHER])
    assert capsys.readouterr().out.strip().startswith("NOT A CANDIDATE")


def test_wide_output_has_times_where_a_candidate_was_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    show_candidates(Printer(format="wide"), [CANDIDATE])
    assert "is cordoned, event 7, ana, 2026-03-04 12:00:00Z, 'new disks'\n" in capsys.readouterr().out
    show_candidates(Printer(), [CANDIDATE])
    assert CANDIDATE["why_not"] in capsys.readouterr().out


def test_ages_of_candidates_are_counted_from_the_decision(capsys: pytest.CaptureFixture[str]) -> None:
    silent = {**CANDIDATE, "why_not": "is lost (silent since 2026-03-04T12:00:00Z)"}
    show_candidates(Printer(), [silent], as_of="2026-03-04T12:00:11Z")
    assert "is lost (silent, last heard 11 s ago)" in capsys.readouterr().out
    show_candidates(Printer(format="wide"), [{**silent, "verdicts": []}], as_of="2026-03-04T12:00:11Z")
    assert "is lost (silent since 2026-03-04 12:00:00Z)" in capsys.readouterr().out


def test_why_not_is_framed_as_of_the_decision_and_says_what_is_so_now(capsys: pytest.CaptureFixture[str]) -> None:
    question = {
        "message": "...",
        "then": "cluster 'elm' was a candidate, and was not chosen: is lost (silent since 2026-03-04T12:00:00Z).",
        "now": "It could run it now.",
    }
    explanation = {"decision": 2, "decided_at": "2026-03-04T12:00:11Z", "why_not": question}
    show_why_not(Printer(format="wide"), explanation)
    assert (
        capsys.readouterr().out.split("\n")[0].startswith("As of decision 2, 2026-03-04 12:00:11Z: cluster 'elm' was")
    )
    show_why_not(Printer(), explanation)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("As of decision 2, ")
    assert "; ages are counted from then: cluster 'elm' was a candidate, and was not chosen: is lost" in shown
    assert shown.endswith("(silent, last heard 11 s ago). It could run it now.")


def test_the_times_in_why_it_was_decided_again_are_distances(capsys: pytest.CaptureFixture[str]) -> None:
    because = "cluster 'elm' is silent since 2026-03-04T12:00:00Z"
    Printer().rows([{"number": 1, "because": because}], _HISTORY_COLUMNS)
    assert "T12:00:00Z" not in capsys.readouterr().out


def test_an_earlier_decision_opens_with_what_was_decided() -> None:
    explanation = {
        "decision": 1,
        "decided_at": "2026-03-04T12:00:00Z",
        "because": "created",
        "reason": {"code": "ASSIGNED", "message": "Cluster 'elm' was chosen."},
        "rule": "pool 'std' at domain d decides",
        "history": [{"number": 1}, {"number": 2}],
    }
    assert earlier_decision(Printer(format="wide"), explanation) == (
        "Decision 1 of 2, made 2026-03-04 12:00:00Z (created): Cluster 'elm' was chosen. "
        "Pool 'std' at domain d decides."
    )
    assert earlier_decision(Printer(), {**explanation, "decision": 2}) == ""


def test_a_decision_that_was_made_again_opens_with_what_changed() -> None:
    explanation = {
        "decision": 2,
        "decided_at": "2026-03-04T12:00:00Z",
        "because": "from birch: after event 34, cluster 'birch' DRAINING by anonymous (says cleo), 'new disks'",
        "history": [{"number": 1}, {"number": 2}],
    }
    printer = Printer(format="wide")
    assert decided_again(printer, explanation) == f"Decided again 2026-03-04 12:00:00Z, {explanation['because']}."
    assert decided_again(printer, {**explanation, "decision": 1, "because": "created"}) == ""


def test_revisions_stand_below_only_where_a_table_names_them_by_their_number() -> None:
    explanation: dict[str, Any] = {
        "revisions": {"12": {"revision": 12}, "41": {"revision": 41}, "43": {"revision": 43}},
        "rungs": [{"rung": "domain", "version": 12}],  # which is described in its place
        "received": [{"field": "a", "origin": {"domain": "d", "revision": 41, "version": 44}}, {"field": "b"}],
        "settings": [
            {"resource_type": "x", "origins": {"c": {"domain": "d", "version": 43}, "e": {"level": "platform"}}}
        ],
    }
    assert _mentioned(Printer(), explanation) == [41, 43]
    assert _mentioned(Printer(format="wide"), explanation) == []
    assert _mentioned(Printer(), {"revisions": {"12": {"revision": 12}}, "rungs": explanation["rungs"]}) == []
