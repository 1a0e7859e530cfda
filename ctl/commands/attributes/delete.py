"""`delete` of a kind: delete exactly one row, and show what applies afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ctl.cli.diffs import show_difference
from ctl.cli.files import check_expected_version
from ctl.cli.groups import Command
from ctl.cli.options import SCOPE_PARAMETERS, option, write_options
from ctl.cli.prompts import asks, confirm
from ctl.cli.provenance import as_of
from ctl.cli.scopes import place, scope_for
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document, Effective
from ctl.client.kinds import Kind
from ctl.client.scopes import Scope
from ctl.commands.attributes.get import effective_leaves, leaf_table
from ctl.commands.attributes.update import own_row, read_file
from ctl.commands.previews import show_preview

_HELP = """{description}

Deletes the row stored at exactly one scope; rows at broader and more specific scopes stay. Shows the row, asks for
confirmation on a terminal, and shows what applies afterwards, each field with where it comes from; --dryRun shows that
too. If nothing is set, there is nothing to delete, and the exit status is 0.
"""


def delete_attribute(kind: Kind) -> Command:
    def run(session: Session, **flags: Any) -> None:
        if flags["attr_file"] is None:
            scope, file = scope_for(session, kind, flags), None
        else:
            scope, file = read_file(session, kind, flags)
        row = own_row(session, kind, scope, file)
        if row is None:
            _answer(session, kind, scope, {"deleted": False, "dry_run": flags["dry_run"], "warnings": []})
            session.printer.note(f"Nothing was set for {place(kind, scope)}: there is nothing to delete.")
            return
        if file is not None and not flags["force"]:
            write = partial(session.client.delete_attribute, kind, scope)
            check_expected_version(session, file.name, file.version, row.version, write)
        asks_first = asks(flags)
        title, labels = f"{place(kind, scope)} (level {scope.level})", (f"version {row.version}", "deleted")
        if flags["dry_run"]:
            session.printer.note("Dry run: nothing was deleted.")
        show_difference(session, title, row.payload, None, labels, asks_first=asks_first)
        if asks_first:
            confirm("Delete this?", "Not confirmed: nothing was deleted.")
        _delete(session, kind, scope, None if flags["force"] else row.version, flags)

    return Command(
        run,
        help=_HELP.format(description=kind.description or kind.name),
        params=[
            *SCOPE_PARAMETERS,
            option(
                "attrFile",
                metavar="FILE",
                help="Take the scope from a file; its payload is checked, but not used. - is stdin.",
            ),
            *write_options("Do not ask, and delete the row even if it has changed."),
        ],
        examples=[
            f"rainbowctl delete {kind.noun} -p flyteexamples -d development",
            f"rainbowctl delete {kind.noun} -d development --dryRun",
            f"rainbowctl delete {kind.noun} --attrFile file.yaml --force -m 'no longer needed'",
        ],
    )


def _delete(session: Session, kind: Kind, scope: Scope, version: int | None, flags: Mapping[str, Any]) -> None:
    change = session.client.delete_attribute(kind, scope, **reasons(flags), if_match=version, dry_run=flags["dry_run"])
    session.printer.warnings(change.warnings)
    _answer(session, kind, scope, change.document)
    if flags["dry_run"]:
        _show_afterwards(session, kind, scope, change.document, "would apply there")
        show_preview(session, change.document, is_dry_run=True)
        return
    outcome = "Deleted" if change.changed else "Someone else already deleted"
    session.printer.note(f"{outcome} {place(kind, scope)}.")
    _show_afterwards(session, kind, scope, change.document, "applies there now")


def _answer(session: Session, kind: Kind, scope: Scope, document: Document) -> None:
    session.printer.machine_output([scope.name(kind.noun)], document)


def _show_afterwards(session: Session, kind: Kind, scope: Scope, answer: Document, applies: str) -> None:
    """What applies at the scope without the row, field by field; an older admin does not say."""
    document = answer.get("afterwards")
    if not document or not session.printer.is_table or session.printer.is_quiet:
        return
    [value] = document["values"]
    effective = Effective.from_document(value, document.get("revisions"))
    if effective.is_empty and answer.get("routes"):
        return  # these say what decides then
    if effective.is_empty:
        session.printer.report(f"Nothing {applies}: no level above sets it.")
        return
    leaves, origins = effective_leaves(kind, effective)
    session.printer.report(f"What {applies}, {as_of(document)}:")
    leaf_table(session, scope, leaves, origins, effective.revisions)
    effects = [effect for entries in (document.get("field_effects") or {}).values() for effect in entries]
    entries = [*(document.get("consequences") or {}).values(), *effects]
    told = {warning["message"] for warning in answer.get("warnings") or []}
    for message in dict.fromkeys(entry["message"] for entry in entries if entry["message"] not in told):
        session.printer.report(message)
