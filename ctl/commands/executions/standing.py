"""Where an execution stands: its phase, what happens next, its attempts and its lease."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctl.cli.output import Printer
from ctl.cli.provenance import describe_provenance
from ctl.client.answers import Document
from ctl.client.executions import ExecutionId
from ctl.client.facts import FINISHED_PHASES, MOST_AHEAD, NOT_BEGUN
from ctl.client.times import distance, format_duration
from ctl.client.words import count
from ctl.commands.executions.tables import reason_code

#: How many attempts are shown unless the output is wide.
_MOST_ATTEMPTS = 5
#: More nodes of an attempt than these are counted only, unless the output is wide.
_MOST_NODES = 3

#: How the sentence of a status begins that says how long ago its phase began.
_DURATION = "[0-9]+ [a-z]+(?: [0-9]+ [a-z]+)?"
_AGE = re.compile(rf"[A-Z_]+(?: on \S+)? (?:for {_DURATION}|{_DURATION} ago)")


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


def show_next(printer: Printer, document: Document) -> None:
    """What decides about an execution next."""
    for entry in describe_next(document):
        printer.sentence(entry, indent=" " * 10)


def describe_next(document: Document) -> list[str]:
    status = document.get("status") or {}
    start = ((status or document.get("wait") or {}).get("start") or {}).get("message")
    steps = {"next": status.get("next"), "start": start, "if silent": status.get("if_silent")}
    return [f"{word:<9} {step}" for word, step in steps.items() if step]


def describe_tokens(document: Document) -> list[str]:
    """The tokens that it needs, and whether it holds them."""
    status = document.get("status") or {}
    amounts = sorted((status.get("token_pools") or {}).items())
    if not amounts:
        return []
    is_over = status.get("phase") in FINISHED_PHASES
    verb = "holds" if status.get("holds_tokens") else "needed" if is_over else "needs"
    return [f"tokens    {verb} {', '.join(f'{amount} of {pool}' for pool, amount in amounts)}"]


def describe_kept(printer: Printer, document: Document) -> list[str]:
    """When retention deletes it, and its log and events where that is earlier."""
    kept = (document.get("status") or {}).get("kept_until") or {}
    until = {word: printer.when(kept[word], is_due=True) for word in ("execution", "log", "events") if kept.get(word)}
    whole = until.get("execution")
    parts = [whole] if whole else []
    parts += [f"its {word} {time}" for word, time in until.items() if word != "execution" and time != whole]
    return [f"deleted   {', '.join(parts)}"] if parts else []


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


def describe_times(explanation: Document) -> list[str]:
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


def describe_attempts(printer: Printer, explanation: Document) -> list[str]:
    """The attempts that agents have or had, of many the last ones."""
    attempts = explanation.get("attempts") or []
    shown = attempts if printer.is_wide else attempts[-_MOST_ATTEMPTS:]
    hidden, unrecorded = len(attempts) - len(shown), explanation.get("unrecorded_attempts") or 0
    lines = [f"attempts  {count(unrecorded, 'earlier attempt')} not recorded"] if unrecorded else []
    lines += [f"attempts  {count(hidden, 'earlier attempt')}; `-o wide` shows them"] if hidden else []
    return lines + [f"{_attempt_word(attempt):<9} {_attempt(printer, attempt)}" for attempt in shown]


def describe_refused(printer: Printer, explanation: Document) -> list[str]:
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


def describe_lease(printer: Printer, explanation: Document) -> list[str]:
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
