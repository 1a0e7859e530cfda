"""`explain execution`: the rungs of a decision, every candidate with its verdicts, the choice, and the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.output import Columns, Printer, Sentence, Time
from ctl.cli.provenance import (
    describe_origin_revision,
    describe_provenance,
    describe_registration,
    describe_revision,
    show_name,
)
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.executions import ExecutionId
from ctl.client.facts import OVERRIDABLE_KINDS, STATE_FILTERS, WEIGHT_FILTER
from ctl.client.schemas import leaf_values, show
from ctl.client.scopes import BEYOND, DEFINITION
from ctl.client.words import count
from ctl.commands.executions.bids import show_rounds
from ctl.commands.executions.options import UNTOLD, execution_id
from ctl.commands.executions.standing import (
    describe_ahead,
    describe_attempts,
    describe_kept,
    describe_lease,
    describe_next,
    describe_refused,
    describe_times,
    describe_tokens,
    show_standing,
)
from ctl.commands.executions.tables import reason_code, rung_origin
from ctl.files.rules import show_rule

#: Flags of `explain` that are about settings, by their parameters.
_OTHERS = {"workflow_flag": "--workflow", "launch_plan": "--launchplan", "files": "--with", "at": "--at"}

#: The headings of filters whose names say when a cluster does not pass.
_HEADINGS = {"declined": "accepted"}
#: How many candidates are shown unless the output is wide; the chosen one always is.
_MOST_CANDIDATES = 20
#: How many clusters that were no candidates are shown unless the output is wide.
_MOST_NON_CANDIDATES = 10

_HISTORY_COLUMNS: Columns = {
    "DECISION": "number",
    "WHEN": Time("decided_at"),
    "CLUSTER": "cluster",
    "REASON": reason_code,
    "BECAUSE": Sentence("because", is_past=True),
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
    explanation = session.client.explain_execution(id, flags["decision"], why_not=flags["why_not"])
    print_explanation(session, explanation)


def print_explanation(session: Session, explanation: Document) -> None:
    """Print an explanation in the output format in use."""
    printer = session.printer
    if printer.machine_output([ExecutionId.from_document(explanation["id"]).resource], explanation):
        return
    show_explanation(session, explanation)
    printer.warnings(explanation.get("warnings") or [])


def show_explanation(session: Session, explanation: Document) -> None:
    """An explanation for people: where it stands first, then how that came about."""
    printer = session.printer.folded()
    show_standing(printer, explanation)
    show_why_not(printer, explanation)
    decided = earlier_decision(printer, explanation) or decided_again(printer, explanation)
    if decided:
        printer.sentence(decided)
    for entry in _heading(printer, explanation):
        printer.sentence(entry, indent=" " * 10)
    printer.line()
    _show_rungs(printer, explanation)
    candidates = explanation.get("candidates") or []
    if candidates:
        printer.line()
        decided_at = explanation.get("decided_at")
        if decided_at:
            ages = "" if printer.is_wide else "; ages are counted from then"
            number = explanation.get("decision") or 1
            printer.sentence(f"As of decision {number}, {printer.when(decided_at)}{ages}:")
        show_candidates(printer, candidates, as_of=decided_at)
    show_rounds(printer, explanation.get("rounds") or [])
    is_of_now = bool(explanation.get("decided_at"))
    show_non_candidates(printer, explanation.get("not_candidates") or [], is_of_now=is_of_now)
    show_untold(printer, explanation)
    history = explanation.get("history") or []
    if len(history) > 1:
        printer.line()
        printer.rows(history, _HISTORY_COLUMNS)
    _show_received(printer, explanation)
    _show_settings(session, printer, explanation)


def show_why_not(printer: Printer, explanation: Document) -> None:
    """Why it is not at the cluster that was asked about, in a sentence."""
    question = explanation.get("why_not")
    if not question:
        return
    if not question.get("then"):
        printer.sentence(printer.in_words(str(question["message"])))
        return
    decided_at = explanation["decided_at"]
    then = printer.in_words(str(question["then"]), as_of=decided_at)
    ages = "; ages are counted from then" if " ago" in then else ""
    printer.sentence(f"As of decision {explanation['decision']}, {printer.when(decided_at)}{ages}: {then}")
    printer.sentence(str(question["now"]))


def earlier_decision(printer: Printer, explanation: Document) -> str:
    """What was decided when, of a decision that another one followed; "" for the last one."""
    number, history = explanation.get("decision"), explanation.get("history") or []
    if not number or number >= len(history):
        return ""
    because = f" ({explanation['because']})" if explanation.get("because") else ""
    message = (explanation.get("reason") or {}).get("message") or ""
    rule = f" {explanation['rule'][:1].upper()}{explanation['rule'][1:]}." if explanation.get("rule") else ""
    when = printer.when(explanation.get("decided_at"))
    return f"Decision {number} of {len(history)}, made {when}{because}: {message}{rule}"


def decided_again(printer: Printer, explanation: Document) -> str:
    """When and why a decision was made that is not the first one; "" for the first one."""
    if (explanation.get("decision") or 1) == 1 or not explanation.get("because"):
        return ""
    return f"Decided again {printer.when(explanation.get('decided_at'))}, {explanation['because']}."


def _show_rungs(printer: Printer, explanation: Document) -> None:
    """The rungs that say something; the others too in wide output."""
    rungs = explanation["rungs"]
    shown = [rung for rung in rungs if printer.is_wide or rung.get("state") != "silent"]

    def set_by(rung: Document) -> str:
        return rung_origin(rung, describe_rung(printer, rung, explanation.get("revisions")))

    printer.rows(shown, {"RUNG": "rung", "ASKS FOR": _target, "STATE": "state", "SET BY": set_by})
    silent = len(rungs) - len(shown)
    if silent:
        printer.line(f"{silent} more say nothing; `-o wide` shows them.")


def describe_rung(printer: Printer, rung: Document, revisions: Mapping[str, Document] | None) -> str:
    """Who set what a rung says: the revision of its row, or who registered the launch plan; empty where none did."""
    if rung.get("registered_by"):
        return describe_registration(printer, rung["registered_by"])
    return describe_revision(printer, rung.get("version"), revisions)


def _heading(printer: Printer, explanation: Document) -> list[str]:
    id = explanation.get("id") or {}
    reason = explanation.get("reason") or {}
    lines = [
        f"execution {ExecutionId.from_document(id)}",
        *describe_next(explanation),
        *describe_ahead(printer, explanation),
        *describe_times(explanation),
        *describe_kept(printer, explanation),
        *describe_tokens(explanation),
        *describe_attempts(printer, explanation),
        *describe_refused(printer, explanation),
        *describe_lease(printer, explanation),
        f"decision  {describe_placement(explanation)}",
        *_rules(explanation),
        *([f"rule      {explanation['rule']}"] if explanation.get("rule") else []),
        f"reason    {': '.join(str(reason[key]) for key in ('code', 'message') if reason.get(key))}",
    ]
    if explanation.get("decided_at"):
        # Of a later decision a sentence before this says why it was made.
        is_first = explanation.get("because") and (explanation.get("decision") or 1) == 1
        because = f" ({explanation['because']})" if is_first else ""
        lines.append(f"decided   {printer.when(explanation['decided_at'])}{because}")
    lines.append(f"settings  as of revision {explanation.get('revision', '')}")
    lines += _creation(printer, explanation)
    return lines + ([f"queue     {explanation['queue']}"] if explanation.get("queue") else [])


def _rules(explanation: Document) -> list[str]:
    """The rules that were applied, with the numbers by which reasons name them."""
    rules = explanation.get("rules") or []
    return [f"{'' if number > 1 else 'rules':<9} {number}. {show_rule(rule)}" for number, rule in enumerate(rules, 1)]


def describe_placement(placement: Document) -> str:
    """Where something was placed, and by what: `cluster east (pool gpu, strategy weighted)`."""
    by = [f"{key} {placement[key]}" for key in ("pool", "label", "strategy") if placement.get(key)]
    by += ["as the request asks"] if placement.get("strategy_source") == "request" else []
    where = f"cluster {placement['cluster']}" if placement.get("cluster") else "no cluster"
    return f"{where} ({', '.join(by)})" if by else where


def _creation(printer: Printer, explanation: Document) -> list[str]:
    """When it was created, and by whom."""
    if not explanation.get("created_at"):
        return []
    name = show_name(*(explanation.get(key) for key in ("created_by", "claimed_by", "created_proof")))
    return [f"created   {printer.when(explanation['created_at'])}{f', by {name}' if name else ''}"]


def _target(rung: Document) -> str:
    return " ".join(str(rung[key]) for key in ("kind", "name") if rung.get(key))


def show_candidates(printer: Printer, candidates: Sequence[Document], *, as_of: str | None = None) -> None:
    """Every candidate with its verdicts, and why it was not chosen; as of a decision of the past, or of now."""
    words = dict.fromkeys(verdict["filter"] for candidate in candidates for verdict in candidate.get("verdicts") or [])
    # Why a cluster does not pass a filter stands beside it in any case.
    filters = [word for word in words if word != WEIGHT_FILTER and word not in STATE_FILTERS and printer.is_wide]
    headings = (_HEADINGS.get(word, word).upper() for word in filters)
    columns = ["CLUSTER", "WEIGHT", "STATE", *headings, "SCORE", "RANK"]
    columns += ["DRAW"] if printer.is_wide else []
    shown = list(candidates) if printer.is_wide else _first_candidates(candidates)
    rows = [_candidate_cells(printer, candidate, filters, as_of) for candidate in shown]
    printer.table([*columns, "CHOSEN", "WHY NOT"], rows)
    if len(shown) < len(candidates):
        printer.sentence(f"{count(len(candidates) - len(shown), 'other candidate')} not shown; `-o wide` shows all.")


def _first_candidates(candidates: Sequence[Document]) -> list[Document]:
    """The first candidates, and the chosen one wherever it is."""
    later = candidates[_MOST_CANDIDATES:]
    return [*candidates[:_MOST_CANDIDATES], *(candidate for candidate in later if candidate.get("chosen"))]


def show_non_candidates(printer: Printer, clusters: Sequence[Document], *, is_of_now: bool = False) -> None:
    """The clusters that were no candidates, of many the first ones; `is_of_now` where a decision was made before."""
    if not clusters:
        return
    shown = clusters if printer.is_wide else clusters[:_MOST_NON_CANDIDATES]
    printer.line()
    if is_of_now:
        printer.sentence("As the fleet is now, which may have changed since the decision:")
    rows = [{**entry, "why_not": printer.in_words(why_no_candidate(printer, entry))} for entry in shown]
    printer.rows(rows, {"NOT A CANDIDATE": "cluster", "WHY NOT": "why_not"})
    if len(shown) < len(clusters):
        printer.line(f"{len(clusters) - len(shown)} more are no candidates; `-o wide` shows them.")


def show_untold(printer: Printer, explanation: Document) -> None:
    """How many clusters the answer does not tell of."""
    for key, verb in UNTOLD.items():
        if explanation.get(key):
            printer.line()
            printer.sentence(f"And {count(explanation[key], 'cluster')} you may not {verb}.")


def why_no_candidate(printer: Printer, entry: Document) -> str:
    """Why a cluster was no candidate; wide output has the times themselves, which an older admin does not tell."""
    reasons = entry.get("reasons")
    return _drops(printer, reasons) if printer.is_wide and reasons else str(entry["why_not"])


def _drops(printer: Printer, reasons: Sequence[Document]) -> str:
    """`is disabled, event 7, anonymous (says ana), 2026-03-01 12:00:05Z; ...`."""
    return "; ".join(_drop(printer, entry) for entry in reasons)


def _drop(printer: Printer, entry: Document) -> str:
    reason, provenance = str(entry.get("reason", "")), entry.get("provenance")
    if not provenance:
        return reason
    # The message of the event says it already.
    without = reason.removesuffix(f" ({provenance.get('message')})")
    return f"{without}, {describe_provenance(printer, provenance)}"


def _candidate_cells(printer: Printer, candidate: Document, filters: Sequence[str], as_of: str | None) -> list[str]:
    verdicts = {verdict["filter"]: verdict for verdict in candidate.get("verdicts") or []}
    name = str(candidate.get("cluster", "")) + (" (expected)" if candidate.get("expected") else "")
    is_weightless = WEIGHT_FILTER in verdicts and not verdicts[WEIGHT_FILTER].get("passed")
    cells = [name, _number(candidate.get("weight")) + (" (no)" if is_weightless else ""), _state(verdicts)]
    cells += [_verdict(verdicts.get(word)) for word in filters]
    cells += [_number(candidate.get(key)) for key in ("score", "rank", *(["draw"] if printer.is_wide else []))]
    why_not = printer.in_words(_why_not(printer, candidate, verdicts), as_of=as_of)
    return [*cells, "yes" if candidate.get("chosen") else "", why_not]


def _why_not(printer: Printer, candidate: Document, verdicts: Mapping[str, Document]) -> str:
    """Why a candidate was not chosen, also by an older admin, which says so of those alone that failed a filter.

    Wide output has the times of those that operators have switched off.
    """
    failed = [verdict for verdict in verdicts.values() if not verdict.get("passed")]
    if printer.is_wide and any(verdict.get("provenance") for verdict in failed):
        return _drops(printer, failed)
    if "why_not" in candidate:
        return str(candidate["why_not"])
    return "; ".join(str(verdict["reason"]) for verdict in failed if verdict.get("reason"))


def _state(verdicts: Mapping[str, Document]) -> str:
    """What keeps work away from a cluster, as in `get cluster`: `cordoned,lost`; `ok` where nothing does."""
    failed = [verdicts[word] for word in STATE_FILTERS if word in verdicts and not verdicts[word].get("passed")]
    reasons = [str(verdict.get("reason", verdict["filter"])).removeprefix("is ") for verdict in failed]
    return ",".join(reason.partition(" (")[0].partition(":")[0] for reason in reasons) or "ok"


def _verdict(verdict: Document | None) -> str:
    if verdict is None:
        return ""
    return "ok" if verdict.get("passed") else "no"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _show_received(printer: Printer, explanation: Document) -> None:
    """What its job really gets, and where each part comes from."""
    received = explanation.get("received") or []

    def source(entry: Document) -> str:
        if entry.get("origin") and not entry.get("source"):
            place = _place(printer, entry["origin"], explanation)
        else:
            place = str(entry.get("source") or "the job itself")
        return f"{place}, over {entry['overrides']}" if entry.get("overrides") else place

    if received:
        printer.line()
        printer.rows(received, {"JOB GETS": "field", "VALUE": lambda entry: show(entry.get("value")), "FROM": source})


def _place(printer: Printer, origin: Document, explanation: Document) -> str:
    """Where a value comes from, with the revision that set it; never as seen from one scope."""
    if origin.get("level") in BEYOND:
        plan = explanation.get("launch_plan") if origin["level"] == DEFINITION else None
        return f"launch plan {plan['name']} {plan['version']}" if plan else BEYOND[origin["level"]]
    revisions = explanation.get("revisions") if printer.is_wide else None  # else they stand below, once each
    return rung_origin(origin, describe_origin_revision(printer, origin, revisions))


def _show_settings(session: Session, printer: Printer, explanation: Document) -> None:
    """Every setting that reached it; in wide output with its trail, as `explain` shows settings."""
    from ctl.commands.attributes.explain import kinds_of, show_values

    settings, field_effects = explanation.get("settings") or [], _field_effects(explanation)
    if printer.is_wide and settings:
        printer.line()
        revisions = explanation.get("revisions")
        show_values(session, None, settings, revisions=revisions, field_effects=field_effects)
    rows = []
    for value in [] if printer.is_wide else settings:
        kind = kinds_of(session, None, [value])[value["resource_type"]]
        leaves = list(leaf_values(kind.schema, value.get("value") or {}))
        rows += [[kind.noun, "", ""]] if leaves else []
        for path, leaf in leaves:
            place = _place(printer, (value.get("origins") or {}).get(path, {}), explanation)
            effects = (entry["effect"] for entry in field_effects.get(kind.name, ()) if entry["field"] == path)
            rows.append([f"  {path}", show(leaf), "; ".join((place, *effects))])
    if rows:
        printer.line()
        printer.table(["SETTING", "VALUE", "FROM"], rows)
    for version in _mentioned(printer, explanation):
        printer.sentence(describe_revision(printer, version, explanation["revisions"]), indent="  ")


def _field_effects(explanation: Document) -> dict[str, list[Document]]:
    """By kind, the fields of its settings that it does not follow; an older admin tells what the job overrides."""
    if explanation.get("field_effects"):
        return dict(explanation["field_effects"])
    received = explanation.get("received") or []
    fields = dict.fromkeys(
        entry["overrides"] for entry in received if entry.get("overrides") and not entry.get("origin")
    )
    effects = [{"field": field, "effect": "the job itself overrides it", "message": ""} for field in fields]
    return dict.fromkeys(OVERRIDABLE_KINDS, effects) if effects else {}


def _mentioned(printer: Printer, explanation: Document) -> list[int]:
    """The revisions that tables of settings name by their number alone; wide output has all of each in its place."""
    origins = [entry["origin"] for entry in explanation.get("received") or [] if entry.get("origin")]
    for setting in explanation.get("settings") or []:
        origins += (setting.get("origins") or {}).values()
    shown = [origin for origin in origins if origin.get("level") not in BEYOND and not printer.is_wide]
    numbers = (origin.get("revision") or origin.get("version") for origin in shown)
    return sorted({number for number in numbers if str(number) in (explanation.get("revisions") or {})})
