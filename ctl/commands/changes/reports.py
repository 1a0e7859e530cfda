"""How a change of many rows is shown: a line for each row, its difference, and how much it moves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from ctl.cli.diffs import differences, print_diff, unified
from ctl.cli.prompts import asks, check_strict, confirm_write
from ctl.cli.session import Session
from ctl.client.answers import ChangeSet, Document, RowChange, warning_text
from ctl.client.errors import Interrupted, Unreachable
from ctl.client.formats import printable
from ctl.client.schemas import show
from ctl.client.scopes import Scope
from ctl.client.words import count, listed
from ctl.commands.previews import show_preview, show_reach
from ctl.files.proposals import Proposal

#: Up to how many changed rows the differences are shown by default.
FEW = 20
_MOST_WARNINGS = 10

_COLOURS = {"create": "green", "update": "yellow", "delete": "red"}
_DONE = {"create": "created", "update": "updated", "delete": "deleted", "unchanged": "unchanged"}


def locate(proposal: Proposal, trial: ChangeSet) -> dict[int, list[str]]:
    """Add to each row that changes, and to each warning, where its document says so; answers lines of text by index.

    Of a row that is updated each difference has its own position.
    """
    lines: dict[int, list[str]] = {}
    indexes: dict[tuple[str, Scope | str], int] = {}
    for row, document in zip(trial.rows, trial.document.get("rows") or [], strict=True):
        if row.index is None:
            continue
        indexes[row.kind, row.scope if row.name is None else row.name] = row.index
        if not row.is_changed:
            continue
        document["position"] = proposal.position(row.index)
        lines[row.index] = [document["position"]]
        if row.action != "update":
            continue
        changed = [(proposal.position(row.index, part.path), part) for part in differences(row.before, row.after)]
        document["differences"] = [{"field": part.path, "position": place, **part.sides} for place, part in changed]
        lines[row.index] = [f"{place}: {part}" for place, part in changed]
    for warning in trial.warnings:
        about = RowChange.from_document(warning)
        index = indexes.get((about.kind, about.scope if about.name is None else about.name))
        if index is not None:
            warning["position"] = proposal.position(index, str(warning.get("field") or ""))
    return lines


def show_rows(
    session: Session,
    rows: Sequence[RowChange],
    *,
    with_diffs: bool | None = None,
    positions: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """A line for each row, with its difference where few rows change, or where that is asked for.

    `positions` are lines that say where the differences of each row come from, by the index of its change.
    """
    stream = session.printer.report_stream
    if with_diffs is None:
        with_diffs = sum(row.is_changed for row in rows) <= FEW
    for row in rows:
        title = row.title(session.client.noun(row.kind))
        session.printer.report_row(row.action, title, _COLOURS.get(row.action, "white"))
        for line in (positions or {}).get(-1 if row.index is None else row.index, ()):
            print(f"           {printable(line)}", file=stream)
        if with_diffs and row.is_changed:
            show_diff(row, stream)


def show_diff(row: RowChange, stream: IO[str]) -> None:
    """What changes in one row."""
    stored = "before" if row.version is None else f"version {row.version}"
    labels = ("not set" if row.before is None else stored, "deleted" if row.after is None else "after this change")
    print_diff(unified(row.before, row.after, labels), stream)


def show_plan(
    session: Session,
    trial: ChangeSet,
    *,
    with_diffs: bool | None = None,
    is_dry_run: bool = True,
    positions: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """All of a dry run: the number of rows by operation, the effective values that change, and each row.

    `is_dry_run` where that is all that was asked for: then it also says what it would not do. `positions` are as in
    `show_rows`.
    """
    if is_dry_run and not trial.changed:
        session.printer.report("Nothing would change, and no execution would move or be ended.")
    session.printer.report(f"{counts(trial, planned=True)}.")
    if trial.effective is not None and trial.changed:
        session.printer.report(_effect(session, trial.effective))
    show_rows(session, trial.rows, with_diffs=with_diffs, positions=positions)
    if trial.effective is not None and trial.changed and session.printer.is_wide:
        _show_effective(session, trial.effective)
    if trial.changed:
        show_reach(session, trial.document)
        show_preview(session, trial.document, is_dry_run=is_dry_run)


def counts(outcome: ChangeSet, *, planned: bool = False) -> str:
    """`2 to create, 1 to update, 497 unchanged`, or `2 created, …`."""
    numbers = {action: sum(row.action == action for row in outcome.rows) for action in _DONE}
    words = {action: f"to {action}" if planned and action != "unchanged" else word for action, word in _DONE.items()}
    return ", ".join(f"{number} {words[action]}" for action, number in numbers.items() if number) or "nothing to do"


def _effect(session: Session, effective: Document) -> str:
    number = int(effective.get("count") or 0)
    if not number:
        return f"No effective value changes at {_looked_at(effective)}."
    kinds = listed(f"{session.client.noun(name)} {of}" for name, of in (effective.get("by_kind") or {}).items())
    scopes = count(int(effective.get("scopes") or 0), "scope")
    cut = "" if effective.get("complete", True) else f" Only {_looked_at(effective)} were looked at."
    return f"{count(number, 'effective value')} at {scopes} {'changes' if number == 1 else 'change'}: {kinds}.{cut}"


def _looked_at(effective: Document) -> str:
    """`any known scope`, or how many were looked at where that was not all; an older admin looks at all."""
    if effective.get("complete", True):
        return "any known scope"
    return f"the first {count(int(effective['examined']), 'scope')}"


def _show_effective(session: Session, effective: Document) -> None:
    changes = effective.get("changes") or []
    rows = [
        [
            session.client.noun(str(change.get("resource_type", ""))),
            Scope.from_document(change).describe(),
            str(change.get("field", "")),
            *(show(change[key]) if key in change else "" for key in ("before", "after")),
        ]
        for change in changes
    ]
    if rows:
        session.printer.line()
        session.printer.table(["KIND", "SCOPE", "FIELD", "BEFORE", "AFTER"], rows)
    if len(changes) < int(effective.get("count") or 0):
        session.printer.line(f"These are the first {len(changes)}.")


def tell_warnings(session: Session, warnings: Sequence[Document], already_shown: Sequence[Document] = ()) -> None:
    """Print the warnings that were not shown before, each with its position if it has one; of very many the first."""
    sys.stdout.flush()  # what was printed there stands before them
    known = {_placed(session, warning) for warning in already_shown}
    new = [warning for warning in warnings if _placed(session, warning) not in known]
    for warning in new[:_MOST_WARNINGS]:
        position = f"{warning['position']}: " if warning.get("position") else ""
        session.printer.warning(f"{position}{_placed(session, warning)}")
    if len(new) > _MOST_WARNINGS:
        session.printer.warning(f"and {len(new) - _MOST_WARNINGS} more; `-o json` lists them all.")


def _placed(session: Session, warning: Document) -> str:
    row = RowChange.from_document(warning)
    if not row.kind or (row.name is None and row.scope.level == "platform"):
        return warning_text(warning)
    return f"{row.title(session.client.noun(row.kind))}: {warning_text(warning)}"


def answer(session: Session, outcome: ChangeSet) -> None:
    """The answer for programs; people have seen the rows."""
    printer = session.printer
    printer.machine_output((row.short(session.client.noun(row.kind)) for row in outcome.changed_rows), outcome.document)


def is_confirmed(
    session: Session,
    flags: Mapping[str, Any],
    trial: ChangeSet,
    check_unasked: Callable[[ChangeSet], None],
    positions: Mapping[int, Sequence[str]] | None = None,
) -> bool:
    """
    Show the plan and its warnings, and ask before it is carried out; False for a dry run, which ends with its answer.

    Where there is no terminal to ask at, `check_unasked` refuses what needs --force.
    """
    asks_first = asks(flags)
    if flags["dry_run"]:
        session.printer.note("Dry run: nothing was written.")
    if asks_first or not session.printer.is_quiet:
        with_diffs = True if flags["show_diff"] else None
        show_plan(session, trial, with_diffs=with_diffs, is_dry_run=flags["dry_run"], positions=positions)
    if flags["dry_run"]:
        answer(session, trial)
    tell_warnings(session, trial.warnings)
    if flags["dry_run"]:
        return False
    if asks_first:
        confirm_write()
    elif not flags["force"]:
        check_unasked(trial)
    return True


def report_outcome(session: Session, flags: Mapping[str, Any], outcome: ChangeSet, trial: ChangeSet, done: str) -> None:
    """What became of a plan that was carried out; `done` says how."""
    tell_warnings(session, outcome.warnings, trial.warnings)
    answer(session, outcome)
    session.printer.note(f"{done} as revision {outcome.revision}: {counts(outcome)}.")
    check_strict(flags, outcome.warnings, "the change was written")


@contextmanager
def all_or_nothing(revision: int) -> Iterator[None]:
    """Around a write: if no answer comes, say how to find out whether it happened."""
    hint = (
        "The change is all or nothing: either all of it happened, or none. `rainbowctl history` shows which: revision "
        f"{revision} was the latest before it."
    )
    try:
        yield
    except Unreachable as error:
        if error.name == "unanswered" or error.status in {502, 504}:
            error.message = f"{error.message.split('. It may')[0].rstrip('.')}. {hint}"
        raise
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted while writing. {hint}") from None
