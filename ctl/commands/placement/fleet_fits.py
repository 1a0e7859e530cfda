"""`place --fleet`: every cluster of the fleet, when it could run the job, and why not now."""

from __future__ import annotations

from typing import Any

from ctl.cli.output import Printer
from ctl.client.answers import Document
from ctl.client.facts import STATE_FILTERS
from ctl.client.words import count, listed
from ctl.commands.executions.explain import show_untold, why_no_candidate

#: How many clusters are shown unless the output is wide or --limit says so.
_MOST_SHOWN = 20
#: When a cluster could run it, the best answer first.
_ORDER = ("now", "later", "unknown", "never")
#: What is said of a number of clusters, by when they could run it.
_NUMBERS = {
    "now": "{} could run it now",
    "later": "{} could later",
    "never": "{} never could",
    "unknown": "{} might (not known)",
}


def show_fits(printer: Printer, explanation: Document, limit: int | None) -> None:
    """Every cluster, those that could run the job first, and of these the chosen one; of many the first ones."""
    others = explanation.get("not_candidates") or []
    rows = [_row(printer, entry, is_candidate=True) for entry in explanation.get("candidates") or []]
    rows += [_row(printer, entry, is_candidate=False) for entry in others]
    rows.sort(key=lambda row: (row["candidate"] != "chosen", _ORDER.index(row["could_run"]), row["candidate"] == "no"))
    shown = rows if printer.is_wide and limit is None else rows[: limit or _MOST_SHOWN]
    printer.sentence(_summary(explanation["fleet"]))
    if rows:
        printer.line()
        columns = {"CLUSTER": "name", "CANDIDATE": "candidate", "COULD RUN IT": "could_run", "WHY NOT": "why_not"}
        printer.rows(shown, columns)
    more = len(rows) - len(shown) + (explanation.get("left_out") or 0)
    if more:
        printer.line(f"{count(more, 'cluster')} more; `-o wide` shows all, `--limit N` as many.")
    show_untold(printer, explanation)


def _summary(fleet: Document) -> str:
    """`Of 5 clusters 1 could run it now and 4 never could; of its 2 candidates 2 never could.`"""
    if fleet["all"] == fleet["candidates"]:
        return f"Of {_counts(fleet['all'], 'cluster')}; all are candidates."
    return f"Of {_counts(fleet['all'], 'cluster')}; of its {_counts(fleet['candidates'], 'candidate')}."


def _counts(counts: Document, noun: str) -> str:
    parts = [words.format(counts[key]) for key, words in _NUMBERS.items() if counts[key]]
    return f"{count(counts['clusters'], noun)} {listed(parts) or 'none could run it'}"


def _row(printer: Printer, entry: Document, *, is_candidate: bool) -> dict[str, Any]:
    obstacles = entry.get("obstacles") or []
    unknown = entry.get("unknown_resources")
    reasons = [f"how much {listed(unknown)} it has is not known"] if unknown else []
    if is_candidate:
        reasons += [obstacle["reason"] for obstacle in obstacles]
        if not obstacles and not unknown and not entry.get("chosen"):
            reasons.append(str(entry.get("why_not", "")))
    else:
        # Why it gets no work at all, or may not be used, is part of why it is no candidate.
        told = {reason["reason"] for reason in entry.get("reasons") or ()}
        others = [obstacle for obstacle in obstacles if obstacle["filter"] not in STATE_FILTERS]
        reasons += [obstacle["reason"] for obstacle in others if obstacle["reason"] not in told]
        reasons.append(why_no_candidate(printer, entry))
    return {
        "name": f"{entry['cluster']}{' (expected)' if entry.get('expected') else ''}",
        "candidate": "chosen" if entry.get("chosen") else "yes" if is_candidate else "no",
        "could_run": entry["could_run"],
        "why_not": printer.in_words("; ".join(reasons)),
    }
