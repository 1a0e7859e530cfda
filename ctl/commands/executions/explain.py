"""`explain execution`: the rungs of a decision, every candidate with its verdicts, and the choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.output import Columns, Printer, Time
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
from ctl.client.facts import MOST_AHEAD, NOT_BEGUN, OVERRIDABLE_KINDS, STATE_FILTERS, WEIGHT_FILTER
from ctl.client.schemas import leaf_values, show
from ctl.client.scopes import BEYOND, DEFINITION
from ctl.client.times import distance, format_duration
from ctl.client.words import count
from ctl.commands.executions.bids import show_rounds
from ctl.commands.executions.options import execution_id
from ctl.commands.executions.tables import reason_code, rung_origin

#: Flags of `explain` that are about settings, by their parameters.
_OTHERS = {"workflow_flag": "--workflow", "launch_plan": "--launchplan", "files": "--with", "at": "--at"}

#: The headings of filters whose names say when a cluster does not pass.
_HEADINGS = {"declined": "accepted"}
#: How many attempts and clusters are shown unless the output is wide.
_MOST_ATTEMPTS, _MOST_NON_CANDIDATES = 5, 10
#: More nodes of an attempt than these are counted only, unless the output is wide.
_MOST_NODES = 3

#: How the sentence of a status begins that says how long ago its phase began.
_DURATION = "[0-9]+ [a-z]+(?: [0-9]+ [a-z]+)?"
_AGE = re.compile(rf"[A-Z_]+(?: on \S+)? (?:for {_DURATION}|{_DURATION} ago)")

_HISTORY_COLUMNS: Columns = {
    "DECISION": "number",
    "WHEN": Time("decided_at"),
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
    """An explanation for people: where it stands first, then how that came about."""
    printer = session.printer.folded()
    show_standing(printer, explanation)
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
    untold = explanation.get("untold_clusters")
    if untold:
        printer.line()
        printer.sentence(f"And {count(untold, 'cluster')} you may not use.")
    history = explanation.get("history") or []
    if len(history) > 1:
        printer.line()
        printer.rows(history, _HISTORY_COLUMNS)
    _show_received(printer, explanation)
    _show_settings(session, printer, explanation)


def show_standing(printer: Printer, document: Document) -> None:
    """The sentence that says where an execution stands now and why, of its explanation or of itself."""
    status, silence = document.get("status"), document.get("silence")
    sentence = status["message"] if status else silence["message"] if isinstance(silence, dict) else ""
    if sentence and status and printer.is_wide:
        sentence = _with_time(printer, str(sentence), status)
    if sentence:
        printer.sentence(sentence)


def _with_time(printer: Printer, sentence: str, status: Document) -> str:
    """The sentence of a status with the time itself beside how long ago its phase began."""
    since = printer.when(status.get("since"))
    age = _AGE.match(sentence)
    if not since or age is None:
        return f"{sentence} {status['phase']} since {since}." if since else sentence
    return f"{age[0]} ({'at' if age[0].endswith(' ago') else 'since'} {since}){sentence[age.end() :]}"


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


def show_next(printer: Printer, document: Document) -> None:
    """What decides about an execution next."""
    for entry in _next(document):
        printer.sentence(entry, indent=" " * 10)


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
    lines = [f"execution {ExecutionId.from_document(id)}", *_next(explanation), *describe_ahead(printer, explanation)]
    lines += _times(explanation)
    lines += [*_attempts(printer, explanation), *_refused(printer, explanation), *_lease(printer, explanation)]
    lines += [
        f"decision  {describe_placement(explanation)}",
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


def describe_placement(placement: Document) -> str:
    """Where something was placed, and by what: `cluster east (pool gpu, strategy weighted)`."""
    by = [f"{key} {placement[key]}" for key in ("pool", "label", "strategy") if placement.get(key)]
    where = f"cluster {placement['cluster']}" if placement.get("cluster") else "no cluster"
    return f"{where} ({', '.join(by)})" if by else where


def _creation(printer: Printer, explanation: Document) -> list[str]:
    """When it was created, and by whom."""
    if not explanation.get("created_at"):
        return []
    name = show_name(*(explanation.get(key) for key in ("created_by", "claimed_by", "created_proof")))
    return [f"created   {printer.when(explanation['created_at'])}{f', by {name}' if name else ''}"]


def _next(document: Document) -> list[str]:
    status = document.get("status") or {}
    start = ((status or document.get("wait") or {}).get("start") or {}).get("message")
    steps = {"next": status.get("next"), "start": start, "if silent": status.get("if_silent")}
    return [f"{word:<9} {step}" for word, step in steps.items() if step]


def describe_ahead(printer: Printer, explanation: Document) -> list[str]:
    """The first of the executions that go before one in line, and by when each has ended at the latest."""
    start = (explanation.get("status") or explanation.get("wait") or {}).get("start") or {}
    lines = []
    for other in start.get("ahead") or []:
        end = "no time limit"
        if other.get("ends_by"):
            end = f"ends {printer.when(other['ends_by'], is_ahead=True)} at the latest"
        elif other.get("time_limit_seconds") is not None:
            end = f"runs for {format_duration(other['time_limit_seconds'])} at most"
        lines.append(f"ahead     {ExecutionId.from_document(other)}, {other['phase']}: {end}")
    numbers = [int(start.get(word) or 0) for word in ("running", "waiting")]
    others = sum(min(number, MOST_AHEAD) for number in numbers) - len(lines)
    more = "more than " if max(numbers) > MOST_AHEAD else ""
    return [*lines, f"ahead     {more}{count(others, 'other')}"] if others > 0 else lines


def _times(explanation: Document) -> list[str]:
    """How the time since it was created was spent."""
    times = (explanation.get("status") or {}).get("times")
    if not times:
        return []
    names = ("run_seconds", "unreported_seconds", "unknown_seconds", "total_seconds")
    run, late, unknown, total = (int(times.get(name) or 0) for name in names)
    back_off = int(times.get("backoff_seconds") or 0)
    waiting = total - run - late - unknown  # of whole seconds, so that what is shown adds up
    parts = [
        f"waited {format_duration(waiting)}{f' ({format_duration(back_off)} of it in back-off)' if back_off else ''}",
        f"ran {format_duration(run)}",
        f"end reported {format_duration(late)} late" if late else "",
        f"{format_duration(unknown)} not known" if unknown else "",
        f"{format_duration(total)} in all",
    ]
    return [f"times     {', '.join(part for part in parts if part)}"]


def _attempts(printer: Printer, explanation: Document) -> list[str]:
    """The attempts that agents have or had, of many the last ones."""
    attempts = explanation.get("attempts") or []
    shown = attempts if printer.is_wide else attempts[-_MOST_ATTEMPTS:]
    hidden, unrecorded = len(attempts) - len(shown), explanation.get("unrecorded_attempts") or 0
    lines = [f"attempts  {count(unrecorded, 'earlier attempt')} not recorded"] if unrecorded else []
    lines += [f"attempts  {count(hidden, 'earlier attempt')}; `-o wide` shows them"] if hidden else []
    return lines + [f"{_attempt_word(attempt):<9} {_attempt(printer, attempt)}" for attempt in shown]


def _refused(printer: Printer, explanation: Document) -> list[str]:
    """The last reports that were refused: they came too late, or from a cluster that does not have it."""
    return [
        f"{'refused':<9} {printer.when(report['at'])}: {report['reason']['message']} ({report['reason']['code']})"
        for report in explanation.get("refused_reports") or []
    ]


def _attempt_word(attempt: Document) -> str:
    """`attempt 2`; `lease 3` for one that never started."""
    if attempt.get("phase") in NOT_BEGUN:
        return f"lease {attempt['number']}"
    return f"attempt {attempt.get('attempt_number') or attempt['number']}"


def _attempt(printer: Printer, attempt: Document) -> str:
    """`FAILED on east (n1, n2): exit 1; native id 4711, started 3 min 5 s ago, ended 2 min 1 s ago`."""
    where = f" on {attempt['cluster']}" if attempt.get("cluster") else ""
    where += _nodes(printer, attempt.get("nodes") or [])
    by = f": {_ended_by(printer, attempt)}" if attempt.get("ended_by") and attempt.get("phase") != "SUCCEEDED" else ""
    ended = f"ended {printer.when(attempt['ended_at'])}" if attempt.get("ended_at") else ""
    is_late = attempt.get("silent_since") and attempt.get("reported_at") and not attempt.get("confirmed_at")
    if ended and is_late:
        ended += f", reported {printer.when(attempt['reported_at'])}"
    if attempt.get("reported_at") and not ended and attempt.get("started_at"):
        silent = f" (silent since {printer.when(attempt['silent_since'])})" if is_late else ""
        ended = f"end reported {printer.when(attempt['reported_at'])}{silent}"
        # An older admin has no `unconfirmed`.
        if attempt.get("unconfirmed") or (reason_code(attempt) == "CLUSTER_LOST" and not attempt.get("confirmed_at")):
            ended = "end not confirmed"
    if attempt.get("confirmed_at"):
        told = f" ({attempt['confirmed_as']})" if attempt.get("confirmed_as") else ""
        at = f"end confirmed {printer.when(attempt['confirmed_at'])}{told}"
        ended = f"{ended}, {at}" if attempt.get("ended_at") else at
    facts = [
        f"native id {attempt['native_id']}" if attempt.get("native_id") else "",
        f"started {printer.when(attempt['started_at'])}" if attempt.get("started_at") else "",
        ended,
    ]
    is_told = attempt.get("phase") == "DECLINED"  # by what it ended
    message = (attempt.get("reason") or {}).get("message") if printer.is_wide and not is_told else ""
    parts = [f"{attempt.get('phase', '')}{where}{by}", ", ".join(fact for fact in facts if fact), message]
    return "; ".join(part for part in parts if part)


def _ended_by(printer: Printer, attempt: Document) -> str:
    """By what an attempt ended: who drained its cluster, why its agent declined it, else as the admin says."""
    if attempt.get("drained_by"):
        return f"drained ({describe_provenance(printer, attempt['drained_by'])})"
    message = (attempt.get("reason") or {}).get("message")
    return str(message if attempt.get("phase") == "DECLINED" and message else attempt["ended_by"])


def _nodes(printer: Printer, nodes: Sequence[str]) -> str:
    shown = nodes if printer.is_wide else nodes[:_MOST_NODES]
    more = [f"{len(nodes) - len(shown)} more"] if len(nodes) > len(shown) else []
    return f" ({', '.join([*shown, *more])})" if nodes else ""


def _lease(printer: Printer, explanation: Document) -> list[str]:
    """Until when an agent has it, and when that was last heard."""
    lease = explanation.get("lease")
    if not lease:
        return []
    confirmed = "confirmed" if lease.get("confirmed") else "not confirmed by its agent yet"
    end = distance(lease["expires_at"])
    verb = "ends" if end.startswith("in ") else "ended"
    end = f"{verb} {printer.when(lease['expires_at'], is_ahead=True)}, {confirmed}"
    heard = f"its agent was last heard {printer.when(lease['heard_at'])}" if lease.get("heard_at") else ""
    draining = " and draining" if lease.get("draining") else ""
    health = f"the cluster is {lease['health']}{draining}" if lease.get("health") else ""
    return [f"lease     {'; '.join(part for part in (end, heard, health) if part)}"]


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
    rows = [_candidate_cells(printer, candidate, filters, as_of) for candidate in candidates]
    printer.table([*columns, "CHOSEN", "WHY NOT"], rows)


def show_non_candidates(printer: Printer, clusters: Sequence[Document], *, is_of_now: bool = False) -> None:
    """The clusters that were no candidates, of many the first ones; `is_of_now` where a decision was made before."""
    if not clusters:
        return
    shown = clusters if printer.is_wide else clusters[:_MOST_NON_CANDIDATES]
    printer.line()
    if is_of_now:
        printer.sentence("As the fleet is now, which may have changed since the decision:")
    rows = [{**entry, "why_not": printer.in_words(_why_no_candidate(printer, entry))} for entry in shown]
    printer.rows(rows, {"NOT A CANDIDATE": "cluster", "WHY NOT": "why_not"})
    if len(shown) < len(clusters):
        printer.line(f"{len(clusters) - len(shown)} more are no candidates; `-o wide` shows them.")


def _why_no_candidate(printer: Printer, entry: Document) -> str:
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
