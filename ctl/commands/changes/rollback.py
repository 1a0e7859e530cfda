"""`rollback`: undo revisions, or go back to an earlier one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import (
    SCOPE_PARAMETERS,
    SHOW_DIFF,
    STRICT_WRITE,
    Argument,
    Option,
    kind_argument,
    write_options,
)
from ctl.cli.provenance import describe_later
from ctl.cli.revisions import revision_number
from ctl.cli.scopes import resolve_scope, typed_scope
from ctl.cli.session import Session, reasons
from ctl.client.answers import ChangeSet, Document, RowChange
from ctl.client.errors import Conflict, InvalidInput
from ctl.client.words import count, listed, show_ranges
from ctl.commands.changes.reports import all_or_nothing, answer, is_confirmed, report_outcome, tell_warnings
from ctl.files.proposals import moved_reason

_HELP = """Undo one or more revisions, or restore what was set at an earlier one.

rollback REVISION restores the rows of that revision to what they were before it; of several, as 41 42 43, 41..43 or
both, the rows of all of them, as one new revision. If another revision changed one of these rows since, nothing is
written, and the exit status is 5: each changed row is listed with the later revisions, their authors, times and
messages, and so are the rows that can still be undone. --restorable undoes those alone, and says what it left. If the
revision was rolled back already, that is said, with by whom.

rollback --to REVISION restores the rows of exactly one scope to what they were at that revision; with NOUN only one
kind, with --everything all rows and projects. Revision 0 is before the first.

A rollback is a new revision: history keeps both, and it can be rolled back itself. Shows the plan and asks for
confirmation on a terminal; without one, a rollback of more than one scope needs --force.
"""


@command(
    help=_HELP,
    params=[
        kind_argument("[REVISION|FROM..TO|NOUN]", "Revisions to undo; with --to a kind.", parameter="word"),
        *SCOPE_PARAMETERS,
        Argument("more", nargs=-1, metavar="[REVISION]...", explanation="Further revisions to undo."),
        Option(["--to"], metavar="REVISION", callback=revision_number, help="Go back to this revision."),
        Option(["--everything"], is_flag=True, help="With --to: all rows and projects."),
        Option(["--restorable"], is_flag=True, help="With REVISION: only rows that no later revision changed."),
        SHOW_DIFF,
        *write_options("Do not ask, and ignore revisions made since the plan was shown."),
        STRICT_WRITE,
    ],
    examples=[
        "rainbowctl rollback 12 -m 'the limits were too low'",
        "rainbowctl rollback 12 --restorable --dryRun",
        "rainbowctl rollback 12..14 16 --dryRun",
        "rainbowctl rollback --to 9 -p flyteexamples -d development",
        "rainbowctl rollback --to 9 task-resource-attribute -d development --dryRun",
        "rainbowctl rollback --to 9 --everything --force",
    ],
)
def rollback(session: Session, word: str | None, **flags: Any) -> None:
    target = {**_rollback_target(session, word, flags), "force": flags["force"]}
    trial = _send(session, target, dry_run=True)
    if not trial.changed:
        session.printer.note("No changes: everything is as it was then.")
        _tell_left(session, trial)
        tell_warnings(session, trial.warnings)
        answer(session, trial)
        return
    _tell_left(session, trial)
    if not is_confirmed(session, flags, trial, _check_size):
        return
    with all_or_nothing(trial.revision):
        planned = {} if flags["force"] else {"expected_head": trial.revision}
        outcome = _send(session, {**target, **reasons(flags), **planned})
    report_outcome(session, flags, outcome, trial, "Rolled back")


def _rollback_target(session: Session, word: str | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    if flags["to"] is None:
        words = [each for each in (word, flags["workflow"], *flags["more"]) if each is not None]
        revisions = _revisions(words)
        if flags["everything"] or any(typed_scope(session, {**flags, "workflow": None}).values()):
            raise InvalidInput(
                f"rollback {' '.join(words)} undoes all of {'that revision' if len(revisions) == 1 else 'them'}: leave "
                "out the scope and --everything, or go back to the state of a scope with --to REVISION."
            )
        # An older admin takes one, and knows no list of them.
        return {"revision": revisions if len(revisions) > 1 else revisions[0], "restorable": flags["restorable"]}
    typed = [name for name in typed_scope(session, flags).values() if name is not None]
    if flags["restorable"]:
        raise InvalidInput("--restorable is for `rollback REVISION`; --to restores rows whoever changed them since.")
    if word is not None and _RANGE.fullmatch(word):
        raise InvalidInput(f"rollback {word} undoes revisions, --to goes back to one: keep one of the two.")
    if flags["more"]:
        raise InvalidInput(f"{flags['more'][0]} is one word too many: --to takes one kind and one workflow.")
    if flags["everything"]:
        if typed or word not in (None, "all"):
            raise InvalidInput(
                "--everything means every scope and kind: leave out the scope and the kind, or --everything."
            )
        return {"to": flags["to"]}
    scope = resolve_scope(session, flags)
    if scope.level == "platform":
        raise InvalidInput(
            "--to needs a scope, whose rows it restores: -d DOMAIN, -p PROJECT, or both, and with both a WORKFLOW and "
            f"--launchplan; or --everything for all. For example: rainbowctl rollback --to {flags['to']} "
            "-p flyteexamples -d development"
        )
    kind = None if word in (None, "all") else session.client.kind(str(word))
    return {"to": flags["to"], "scope": scope, "kind": kind}


#: A revision, or several that follow each other.
_RANGE = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?")
#: Revisions that are undone together.
_MOST_UNDONE = 1000


def _revisions(words: Sequence[str]) -> list[int]:
    """The revisions that words name, each one or a range: 41 42, 41..43."""
    if not words:
        raise InvalidInput("Which revision? Give its number as `rainbowctl history` shows it, or --to REVISION.")
    numbers: set[int] = set()
    for word in words:
        match = _RANGE.fullmatch(word)
        if match is None:
            raise InvalidInput(
                f"{word} is neither a revision nor a range of them: give numbers as `rainbowctl history` shows them, "
                "such as 41 or 41..43, or --to REVISION."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise InvalidInput(f"{word} ends before it begins: write {last}..{first}.")
        if first == 0:
            raise InvalidInput(f"{word}: revisions are counted from 1; 0 is what was before the first.")
        if last - first >= _MOST_UNDONE:
            raise InvalidInput(
                f"{word} are {last - first + 1:,} revisions, and at most {_MOST_UNDONE:,} are undone together: go back "
                f"to revision {first - 1} with --to {first - 1}, at one scope or with --everything."
            )
        numbers.update(range(first, last + 1))
    if len(numbers) > _MOST_UNDONE:
        raise InvalidInput(f"{len(numbers):,} revisions are named, and at most {_MOST_UNDONE:,} are undone together.")
    return sorted(numbers)


def _send(session: Session, target: Mapping[str, Any], *, dry_run: bool = False) -> ChangeSet:
    try:
        return session.client.roll_back(**target, dry_run=dry_run)
    except Conflict as error:
        if error.name != "version_conflict" or not error.details:
            raise
        undone = target.get("revision")
        numbers = undone if isinstance(undone, list) else [undone or 0]
        title = f"revision{'s' if len(numbers) > 1 else ''} {show_ranges(numbers)}"
        for detail in error.details:
            detail["position"] = title
            detail["reason"] = _reason(session, detail)
        if error.restorable:
            rows = [RowChange.from_document(row) for row in error.restorable]
            titles = listed(row.title(session.client.noun(row.kind)) for row in rows)
            error.hint = f"Not changed since, and undone by --restorable: {titles}."
        undoing = {detail.get("changed_by_revision") for detail in error.details}
        if len(undoing) == 1 and all(detail.get("rolled_back") for detail in error.details):
            [rollback_number] = undoing
            last = {name: value for name, value in error.details[0].items() if name not in ("later", "later_count")}
            by = describe_later(session.printer, last)
            rollback = last.get("provenance") or last
            others = {*(rollback.get("also_undone") or ()), rollback.get("undone", numbers[0])} - set(numbers)
            changes = "all that it undid" if others else "its change" if len(numbers) == 1 else "their changes"
            error.message = (
                f"{title.capitalize()} {'was' if len(numbers) == 1 else 'were'} rolled back already, by {by}: nothing "
                f"was written. To make {changes} again, `rainbowctl rollback {rollback_number}`."
            )
        else:
            error.message = (
                f"{count(len(error.details), 'row')} of {title} changed again since: nothing was written. "
                "Undo the later revisions first, or go back with --to."
            )
        raise


def _tell_left(session: Session, trial: ChangeSet) -> None:
    """The rows that a rollback leaves as they are, and those that were changed back, with the later revisions."""
    for row in trial.document.get("changed_back") or []:
        reason = _reason(session, row).replace("changed again", "changed and changed back")
        session.printer.note(f"Since then {reason}; it is as the revision left it.")
    rows = trial.document.get("left") or []
    for row in rows:
        session.printer.note(f"Left as it is: {_reason(session, row)}.")
    rest = int(trial.document.get("left_count") or 0) - len(rows)
    if rest:
        session.printer.note(f"And {count(rest, 'more row')}.")


def _reason(session: Session, detail: Document) -> str:
    """Why a row cannot be undone: the later revisions, newest first, by whom, when and why each."""
    reason = moved_reason(detail, session.client.noun)
    if detail.get("rolled_back") and "later" not in detail:
        reason = reason.replace("changed again", "rolled back already")
    return reason.replace(f"revision {detail.get('changed_by_revision')}", describe_later(session.printer, detail))


def _check_size(trial: ChangeSet) -> None:
    places = {row.place for row in trial.changed_rows}
    if len(places) > 1:
        noun = "definition" if all(row.name for row in trial.changed_rows) else "scope"
        raise InvalidInput(
            f"This changes {count(len(places), noun)}, and there is no terminal to ask at: use --force. Nothing was "
            "written."
        )
