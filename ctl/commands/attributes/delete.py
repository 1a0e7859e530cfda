"""`delete` of a kind: delete exactly one row, and show what applies afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.diffs import show_difference
from ctl.cli.files import check_expected_version
from ctl.cli.groups import Command
from ctl.cli.options import SCOPE_PARAMETERS, option, write_options
from ctl.cli.prompts import asks, confirm
from ctl.cli.scopes import place, scope_for
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.errors import ClientError, NotFound
from ctl.client.kinds import Kind
from ctl.client.schemas import summary
from ctl.client.scopes import Scope, describe_origin
from ctl.commands.attributes.update import own_row, read_file
from ctl.commands.previews import show_preview

_HELP = """{description}

Deletes the row stored at exactly one scope; rows at broader and more specific scopes stay. Shows the row, asks for
confirmation on a terminal, and shows what applies afterwards. If nothing is set, there is nothing to delete, and the
exit status is 0.
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
            check_expected_version(file.name, file.version, row.version)
        asks_first = asks(flags)
        title, labels = f"{place(kind, scope)} (level {scope.level})", (f"version {row.version}", "deleted")
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
        show_preview(session, change.document, is_dry_run=True)
        session.printer.note("Dry run: nothing was deleted.")
        return
    outcome = "Deleted" if change.changed else "Someone else already deleted"
    session.printer.note(f"{outcome} {place(kind, scope)}. {_afterwards(session, kind, scope)}")


def _answer(session: Session, kind: Kind, scope: Scope, document: Document) -> None:
    session.printer.machine_output([scope.name(kind.noun)], document)


def _afterwards(session: Session, kind: Kind, scope: Scope) -> str:
    """Show what applies at the scope now; the row is deleted, so a failure here is only a note."""
    try:
        now = session.client.get_attribute(kind, scope)
    except NotFound:
        return "Nothing applies there now: no level above sets it."
    except ClientError as error:
        return f"What applies there now could not be read: {error.message}"
    origin = describe_origin(now.inherited_from, scope) if now.inherited_from else "set again by someone else"
    return f"What applies there now: {summary(kind.schema, now.payload)}, {origin}."
