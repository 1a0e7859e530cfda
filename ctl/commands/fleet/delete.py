"""`delete` of clusters, pools, labels and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ctl.cli.groups import Command
from ctl.cli.options import Argument, definition_completer, write_options
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.errors import Conflict
from ctl.client.nouns import plural
from ctl.client.words import count, did_you_mean, listed
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.previews import show_preview, show_reach

_HELP = """Delete {nouns} by their names.

A {noun} that is in use is not deleted: its users are listed, and the exit status is 5. --force deletes it anyway. Of
several names, all are deleted, or none if one is in use. Asks for confirmation on a terminal. If there is no {noun} of
that name, there is nothing to delete, and the exit status is 0.
"""
_PREVIEW_HELP = """
--dryRun shows what would become of each execution that waits for the {noun} or runs there; with --force also of one
that is in use, with the number of scopes where new executions would be refused, or wait, and everything that would be
left naming it.
"""


def delete_definition(noun: FleetNoun) -> Command:
    def run(session: Session, names: tuple[str, ...], **flags: Any) -> None:
        names = tuple(dict.fromkeys(names))
        are_several = len(names) > 1
        _check(session, noun, names)
        trial = _delete(session, noun, names, are_several, is_forced=flags["force"], dry_run=True)
        existing = _changed(trial, names)
        _note_missing(session, noun, [name for name in names if name not in existing])
        if flags["dry_run"] or not existing:
            _report(session, noun, names, existing, trial)
            if flags["dry_run"] and existing:
                _show_trial(session, noun, existing, trial)
            return
        if is_terminal() and not flags["force"]:
            confirm(f"Delete {noun.name} {listed(existing)}?", "Not confirmed: nothing was deleted.")
        answer = _delete(session, noun, existing, are_several, is_forced=flags["force"], **reasons(flags))
        session.printer.warnings(answer.get("warnings") or [])
        deleted = _changed(answer, existing)
        for name in existing:
            outcome = "Deleted" if name in deleted else "Someone else already deleted"
            session.printer.note(f"{outcome} {noun.name} {name}.")
        _report(session, noun, names, deleted, answer)

    return Command(
        run,
        help=noun.delete_help
        or (_HELP + _PREVIEW_HELP * noun.is_fleet).format(noun=noun.name, nouns=plural(noun.name)),
        params=[
            Argument(
                "names",
                nargs=-1,
                required=True,
                metavar="NAME…",
                explanation=f"Names of {plural(noun.name)}.",
                shell_complete=definition_completer(noun.of_admin),
            ),
            *write_options("Do not ask." if noun.delete_help else "Do not ask, and delete even if in use."),
        ],
        examples=noun.examples["delete"],
    )


def _check(session: Session, noun: FleetNoun, names: Sequence[str]) -> None:
    """Refuse names of something that is of another noun."""
    if noun.chosen:
        for definition in session.client.definitions(noun.of_admin):
            if definition["name"] in names:
                noun.check(definition)


def _note_missing(session: Session, noun: FleetNoun, names: Sequence[str]) -> None:
    """Say which names there are not, each with the nearest that there is."""
    existing = {str(row["name"]): row for row in session.client.definitions(noun.of_admin)} if names else {}
    for name in names:
        if existing.get(name, {}).get("source") == "expected":
            groups = [f"{group} {word}" for group in ("pool", "label") for word in existing[name][f"{group}s"]]
            session.printer.note(
                f"Cluster {name} is not defined, only named by {listed(groups)}: there is nothing to delete. "
                "Take it out of the members there, and it is gone."
            )
        else:
            hint = did_you_mean(name, existing)
            session.printer.note(f"There is no {noun.name} {name}: there is nothing to delete.{hint}")


def _delete(
    session: Session, noun: FleetNoun, names: Sequence[str], are_several: bool, *, is_forced: bool, **options: Any
) -> Document:
    """Delete definitions, all or none; one error for all that are in use. The answer about several has rows."""
    client = session.client
    try:
        if are_several:
            return client.delete_definitions(noun.of_admin, names, force=is_forced, **options)
        return client.delete_definition(noun.of_admin, names[0], force=is_forced, **options)
    except Conflict as error:
        if error.name != "in_use":
            raise
        in_use = [name for name in names if any(detail.get("name", name) == name for detail in error.details)]
        error.details = [{"position": "used by", **detail} for detail in error.details]
        users = count(sum(int(detail.get("count") or 1) for detail in error.details), "place")
        verb = "is" if len(in_use) == 1 else "are"
        error.message = f"{noun.name} {listed(in_use)} {verb} in use in {users}: nothing was deleted."
        error.hint = (
            "Change what uses it first; or see with --force --dryRun what would become of executions, and delete it "
            "anyway with --force."
        )
        raise


def _changed(answer: Document, names: Sequence[str]) -> list[str]:
    """The names of what an answer says was deleted, or would be; that about one has no rows."""
    if "rows" not in answer:
        return list(names) if answer.get("changed") else []
    return [row["name"] for row in answer["rows"] if row["action"] == "delete"]


def _show_trial(session: Session, noun: FleetNoun, names: Sequence[str], trial: Document) -> None:
    """What a dry run says: what would be left naming what is deleted, and what would become of executions."""
    subject = noun.name if len(names) == 1 else plural(noun.name)
    session.printer.note(f"Dry run: {subject} {listed(names)} would be deleted.")
    show_reach(session, trial)
    for user in trial.get("users") or []:
        session.printer.note(f"Left without it: {user['reason']}")
    session.printer.warnings(trial.get("warnings") or [])
    show_preview(session, trial, is_dry_run=True)


def _report(session: Session, noun: FleetNoun, names: Sequence[str], deleted: Sequence[str], answer: Document) -> None:
    """The answer for programs; the names are those of what was deleted, or would be."""
    document = {"name": names[0], **answer} if len(names) == 1 else answer
    session.printer.machine_output((f"{noun.name}/{name}" for name in deleted), document)
