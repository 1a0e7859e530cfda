"""What a dry run says of executions: what would become of each that a change affects, and how many there are."""

from __future__ import annotations

from ctl.cli.output import Sentence
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.scopes import Scope
from ctl.client.words import count
from ctl.commands.executions.tables import ID_COLUMNS

#: What each outcome means for so many executions.
_OUTCOMES = {
    "MOVES": "would move",
    "WAITS": "would wait",
    "TIMES_OUT": "would fail for the queueing budget",
    "RUNS_ON": "would run on",
    "RUNS_AGAIN": "would be ended and run again",
    "ENDS": "would be ended",
    "ENDING": "being ended already",
    "STAYS": "would stay until `rainbowctl redecide`",
}
#: Executions that are listed beside a difference; `-o wide` lists all that the answer has.
FEW = 20


def show_effects(session: Session, preview: Document, *, most: int | None = None) -> None:
    """A line for each execution that would be affected, in a table; programs have the answer."""
    effects = preview["effects"]
    if most is not None and not session.printer.is_wide:
        effects = effects[:most]
    if effects and session.printer.is_table:
        columns = {**ID_COLUMNS, "PHASE": "phase", "CLUSTER": _clusters, "WHAT WOULD HAPPEN": Sentence("message")}
        session.printer.rows(effects, columns)


def _clusters(effect: Document) -> str:
    """Where an execution is and would be: `east -> west`."""
    before, after = effect.get("from") or "none", effect.get("cluster") or "none"
    return before if before == after else f"{before} -> {after}"


def summary(session: Session, preview: Document, *, most: int | None = None) -> str:
    """`2 would move, 1 would wait`, and whether that is all."""
    effects, counts = preview["effects"], preview["counts"]
    parts = [f"{number} {_OUTCOMES.get(outcome, outcome)}" for outcome, number in counts.items()]
    number = len(effects) if most is None or session.printer.is_wide else min(most, len(effects))
    shown = f" The first {number} are shown." if number < sum(counts.values()) and session.printer.is_table else ""
    more = "" if preview["complete"] else f" {_not_examined(preview)}"
    return f"{', '.join(parts) if parts else 'no execution would move or be ended'}.{shown}{more}"


def _not_examined(preview: Document) -> str:
    number = preview.get("not_examined")
    if number is None:
        return "There are more executions than were looked at."  # an older admin does not say how many
    return f"{count(number, 'execution')} {'was' if number == 1 else 'were'} not looked at."


def show_notes(session: Session, preview: Document) -> None:
    """What is said of clusters that are silent, and of what else a switch ends."""
    for note in preview.get("notes") or []:
        session.printer.note(note)


def show_reach(session: Session, answer: Document) -> None:
    """At how many scopes executions would miss each of what is removed; an older admin does not say.

    How many are refused, or wait, is said of the whole change.
    """
    for removed in answer.get("reach") or []:
        missed = (removed.get("refused") or 0) + (removed.get("waiting") or 0)
        if not missed:
            continue
        more, plans = "" if removed["complete"] else "at least ", removed["launch_plans"]
        among = f", {more}{count(plans, 'launch plan')} among them" if plans else ""
        noun, scopes = removed["noun"].capitalize(), f"{more}{count(missed, 'scope')}"
        session.printer.note(f"{noun} {removed['name']} would be missed at {scopes}{among}.")


def show_new_executions(session: Session, answer: Document) -> None:
    """At how many scopes new executions would be refused, or wait, and why; an older admin does not say."""
    new = answer.get("new_executions")
    if not new or session.printer.is_quiet:
        return
    more = "" if new["complete"] else "at least "
    parts = [
        f"{verb} at {more}{count(new[key], 'scope')}"
        for key, verb in (("refused", "are refused"), ("waiting", "wait"))
        if new[key]
    ]
    session.printer.report(f"With this, new executions {' and '.join(parts)}:")
    for reason in new["reasons"]:
        others = reason["scopes"] - 1
        and_others = f" and {count(others, 'other')}" if others else ""
        session.printer.report(
            f"{Scope.from_document(reason).describe()}{and_others}: {session.printer.in_words(reason['message'])}"
        )


def show_changed_below(session: Session, answer: Document) -> None:
    """The scopes below a changed row that would feel the change; an older admin does not say."""
    below = answer.get("changed_below")
    if not below or session.printer.is_quiet:
        return
    named = [Scope.from_document(scope).describe() for scope in below["scopes"]]
    others = below["count"] - len(named)
    more = "" if below["complete"] else "at least "
    rest = f"; and {count(others, 'other')}" if others else ""
    session.printer.report(
        f"Effective values change at {more}{count(below['count'], 'scope')} below: {'; '.join(named)}{rest}."
    )


def show_routes(session: Session, answer: Document) -> None:
    """Which pools and labels would decide where changed settings no longer do; an older admin does not say."""
    for route in answer.get("routes") or [] if not session.printer.is_quiet else []:
        session.printer.report(session.printer.in_words(route["message"]))


def show_lost_rights(session: Session, answer: Document) -> None:
    """What users would no longer be allowed by changed groups; an older admin does not say."""
    rights = answer.get("lost_rights") or [] if not session.printer.is_quiet else []
    shown = rights if session.printer.is_wide else rights[:FEW]
    for right in shown:
        session.printer.report(right["message"])
    if len(rights) > len(shown):
        session.printer.report(f"{count(len(rights) - len(shown), 'other grant')} would be lost; -o wide shows all.")


#: What becomes of a namespace, in words.
_NAMESPACES = {
    "create": "would be made",
    "update": "would change",
    "fail": "could not be rendered, and would stay as it is",
    "remove": "would not be rendered any more",
    "leave": "would be left as it is",
}


def show_namespaces(session: Session, answer: Document) -> None:
    """What would become of namespaces on clusters, and of which objects; an older admin does not say."""
    namespaces = answer.get("namespaces")
    if not namespaces or session.printer.is_quiet:
        return
    shown = namespaces["changes"] if session.printer.is_wide else namespaces["changes"][:FEW]
    for change in shown:
        details = change.get("message") or ", ".join(change.get("objects") or [])
        what = f"{_NAMESPACES.get(change['action'], change['action'])}{f': {details}' if details else '.'}"
        session.printer.report(f"Namespace {change['namespace']} on {', '.join(change['clusters'])} {what}")
    if namespaces["count"] > len(shown):
        session.printer.report(f"{count(namespaces['count'] - len(shown), 'other namespace')} would change too.")


def show_preview(session: Session, answer: Document, *, is_dry_run: bool) -> None:
    """The executions that a change would affect, by its dry run; an older admin does not say.

    Where a dry run is all that was asked for, it also says that none would be affected.
    """
    session.fold()
    if is_dry_run:
        show_changed_below(session, answer)
    show_routes(session, answer)
    show_lost_rights(session, answer)
    show_namespaces(session, answer)
    show_new_executions(session, answer)
    preview = answer.get("executions")
    if not preview or session.printer.is_quiet:
        return
    if is_dry_run or preview["effects"] or not preview["complete"]:
        session.printer.report(f"Executions: {summary(session, preview, most=FEW)}")
    show_notes(session, preview)
    show_effects(session, preview, most=FEW)
