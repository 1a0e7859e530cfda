"""`explain execution`: the rungs of a decision, every candidate with its verdicts, and the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.output import Columns
from ctl.cli.provenance import describe_revision
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.executions import ExecutionId
from ctl.client.scopes import Scope
from ctl.client.times import to_second
from ctl.commands.executions.options import execution_id
from ctl.commands.executions.tables import reason_code, rung_origin

#: Flags of `explain` that are about settings, by their parameters.
_OTHERS = {"workflow_flag": "--workflow", "launch_plan": "--launchplan", "files": "--with", "at": "--at"}

#: The filter whose verdict stands beside the weight itself.
_WEIGHT = "weight"
#: The filters that one column shows: what operators and the agent have made of a cluster.
_STATE_FILTERS = ("enabled", "cordoned", "reachable", "expected")
#: The headings of filters whose names say when a cluster does not pass.
_HEADINGS = {"declined": "accepted"}


_HISTORY_COLUMNS: Columns = {
    "DECISION": "number",
    "WHEN": lambda decision: to_second(str(decision.get("decided_at", ""))),
    "CLUSTER": "cluster",
    "REASON": reason_code,
    "BECAUSE": "because",
}


def explain_execution(session: Session, flags: Mapping[str, Any]) -> None:
    """`explain execution NAME`."""
    wrong = [flag for key, flag in _OTHERS.items() if flags[key]]
    if wrong:
        raise InvalidInput(
            f"{', '.join(wrong)}: the decision of an execution is shown as it was made. Leave it out; "
            "`rainbowctl place` shows where something would run."
        )
    if flags["workflow"] is None:
        raise InvalidInput("Which execution? Write `rainbowctl explain execution NAME`.")
    id = execution_id(session, flags["workflow"])
    explanation = session.client.explain_execution(id, flags["decision"])
    print_explanation(session, explanation)


def print_explanation(session: Session, explanation: Document) -> None:
    """Print an explanation in the output format in use."""
    printer = session.printer
    if printer.machine_output([ExecutionId.from_document(explanation["id"]).resource], explanation):
        return
    show_explanation(session, explanation)
    printer.warnings(explanation.get("warnings") or [])


def show_explanation(session: Session, explanation: Document) -> None:
    """An explanation for people: the choice first, then how it came about."""
    printer = session.printer
    for line in _heading(explanation):
        printer.line(line)
    printer.line()
    _show_rungs(session, explanation)
    candidates = explanation.get("candidates") or []
    if candidates:
        printer.line()
        _show_candidates(session, candidates)
    history = explanation.get("history") or []
    if len(history) > 1:
        printer.line()
        printer.rows(history, _HISTORY_COLUMNS)
    if printer.is_wide:
        _show_settings(session, explanation)


def _show_rungs(session: Session, explanation: Document) -> None:
    """The rungs that say something; the others too in wide output."""
    printer, rungs = session.printer, explanation["rungs"]
    shown = [rung for rung in rungs if printer.is_wide or rung.get("state") != "silent"]

    def said_by(rung: Document) -> str:
        return rung_origin(rung, describe_revision(printer, rung.get("version"), explanation.get("revisions")))

    printer.rows(shown, {"RUNG": "rung", "ASKS FOR": _target, "STATE": "state", "SAID BY": said_by})
    silent = len(rungs) - len(shown)
    if silent:
        printer.line(f"{silent} more say nothing; `-o wide` shows them.")


def _heading(explanation: Document) -> list[str]:
    id = explanation.get("id") or {}
    reason = explanation.get("reason") or {}
    by = [f"{key} {explanation[key]}" for key in ("pool", "label") if explanation.get(key)]
    by += [f"strategy {explanation['strategy']}"] if explanation.get("strategy") else []
    where = f"cluster {explanation['cluster']}" if explanation.get("cluster") else "no cluster"
    where += f" ({', '.join(by)})" if by else ""
    status, silence = explanation.get("status"), explanation.get("silence")
    lines = [f"execution {ExecutionId.from_document(id)}"]
    if status:
        lines += [f"now       {status['message']}"]
        lines += [f"next      {status['next']}"] if status.get("next") else []
    elif silence:
        lines += [f"silence   {silence['message']}"]
    lines += [
        f"decision  {where}",
        f"reason    {': '.join(str(reason[key]) for key in ('code', 'message') if reason.get(key))}",
    ]
    if explanation.get("decided_at"):
        because = f" ({explanation['because']})" if explanation.get("because") else ""
        lines.append(f"decided   {to_second(explanation['decided_at'])}{because}")
    lines.append(f"settings  as of revision {explanation.get('revision', '')}")
    return lines + ([f"queue     {explanation['queue']}"] if explanation.get("queue") else [])


def _target(rung: Document) -> str:
    return " ".join(str(rung[key]) for key in ("kind", "name") if rung.get(key))


def _show_candidates(session: Session, candidates: Sequence[Document]) -> None:
    printer = session.printer
    words = dict.fromkeys(verdict["filter"] for candidate in candidates for verdict in candidate.get("verdicts") or [])
    filters = [word for word in words if word != _WEIGHT and word not in _STATE_FILTERS]
    headings = (_HEADINGS.get(word, word).upper() for word in filters)
    columns = ["CLUSTER", "WEIGHT", "STATE", *headings, "SCORE", "RANK"]
    columns += ["DRAW"] if printer.is_wide else []
    rows = [_candidate_cells(candidate, filters, printer.is_wide) for candidate in candidates]
    printer.table([*columns, "CHOSEN", "WHY NOT"], rows)


def _candidate_cells(candidate: Document, filters: Sequence[str], is_wide: bool) -> list[str]:
    verdicts = {verdict["filter"]: verdict for verdict in candidate.get("verdicts") or []}
    name = str(candidate.get("cluster", "")) + (" (expected)" if candidate.get("expected") else "")
    is_weightless = _WEIGHT in verdicts and not verdicts[_WEIGHT].get("passed")
    cells = [name, _number(candidate.get("weight")) + (" (no)" if is_weightless else ""), _state(verdicts)]
    cells += [_verdict(verdicts.get(word)) for word in filters]
    cells += [_number(candidate.get(key)) for key in ("score", "rank", *(["draw"] if is_wide else []))]
    return [*cells, "yes" if candidate.get("chosen") else "", _why_not(candidate, verdicts)]


def _why_not(candidate: Document, verdicts: Mapping[str, Document]) -> str:
    """Why a candidate was not chosen, also by an older admin, which says so of those alone that failed a filter."""
    if "why_not" in candidate:
        return str(candidate["why_not"])
    failed = [verdict for verdict in verdicts.values() if not verdict.get("passed")]
    return "; ".join(str(verdict["reason"]) for verdict in failed if verdict.get("reason"))


def _state(verdicts: Mapping[str, Document]) -> str:
    """What keeps work away from a cluster, as in `get cluster`: `cordoned,lost`; `ok` where nothing does."""
    failed = [verdicts[word] for word in _STATE_FILTERS if word in verdicts and not verdicts[word].get("passed")]
    reasons = [str(verdict.get("reason", verdict["filter"])).removeprefix("is ") for verdict in failed]
    return ",".join(reason.partition(" (")[0].partition(":")[0] for reason in reasons) or "ok"


def _verdict(verdict: Document | None) -> str:
    if verdict is None:
        return ""
    return "ok" if verdict.get("passed") else "no"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _show_settings(session: Session, explanation: Document) -> None:
    """Every setting that was resolved, each with its trail, as `explain` shows settings."""
    from ctl.commands.attributes.explain import show_values

    settings = explanation.get("settings") or []
    if settings:
        session.printer.line()
        scope = Scope.from_document(explanation.get("id") or {})
        show_values(session, scope, settings, revisions=explanation.get("revisions"))
