"""`delete` of a kind: delete exactly one row, and show what applies afterwards."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.diffs import print_diff, unified
from ctl.cli.groups import Command
from ctl.cli.options import Option, dry_run_option, force_option, message_option, scope_parameters
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.scopes import default_scope, place, scope_for, typed_scope
from ctl.cli.session import Session, local_user
from ctl.client.answers import Attribute, Document, warning_text
from ctl.client.errors import ClientError, NotFound
from ctl.client.kinds import Kind
from ctl.client.schemas import summary
from ctl.client.scopes import Scope, check_level, describe_origin
from ctl.client.words import flags as flag_names
from ctl.commands.attributes.update import check_expected_version, own_row

if TYPE_CHECKING:
    from ctl.files.attributes import AttributeFile

_HELP = """{description}

Deletes the row stored at exactly one scope; rows at broader and more specific scopes stay. Shows the row, asks for
confirmation on a terminal, and shows what applies afterwards. If nothing is set, there is nothing to delete, and the
exit status is 0.
"""


def delete_attribute(kind: Kind) -> click.Command:
    def run(session: Session, **flags: Any) -> None:
        scope, file = _scope_and_file(session, kind, flags)
        row = own_row(session, kind, scope, file)
        if row is None:
            _answer(session, kind, scope, {"deleted": False, "dry_run": flags["dry_run"], "warnings": []})
            session.printer.note(f"Nothing was set for {place(kind, scope)}: there is nothing to delete.")
            return
        if file is not None and not flags["force"]:
            check_expected_version(file, row)
        asks = is_terminal() and not flags["force"] and not flags["dry_run"]
        if asks or not session.printer.is_quiet:
            _show(session, kind, scope, row)
        if asks:
            confirm("Delete this?", "Not confirmed: nothing was deleted.")
        _delete(session, kind, scope, None if flags["force"] else row.version, flags)

    return Command(
        kind.noun,
        run,
        help=_HELP.format(description=kind.description or kind.name),
        short_help=kind.title,
        takes=("project", "domain"),
        params=[
            *scope_parameters(),
            Option(
                [*flag_names("attrFile"), "attr_file"],
                metavar="FILE",
                help="Take the scope from a file; its payload is checked, but not used. - is stdin.",
            ),
            dry_run_option(),
            force_option("Do not ask, and delete the row even if it has changed."),
            message_option(),
        ],
        examples=[
            f"rainbowctl delete {kind.noun} -p flyteexamples -d development",
            f"rainbowctl delete {kind.noun} -d development --dryRun",
            f"rainbowctl delete {kind.noun} --attrFile file.yaml --force -m 'no longer needed'",
        ],
    )


def _scope_and_file(session: Session, kind: Kind, flags: Mapping[str, Any]) -> tuple[Scope, AttributeFile | None]:
    if flags["attr_file"] is None:
        return scope_for(session, kind, flags), None
    from ctl.files.attributes import read_attribute_file

    file = read_attribute_file(str(flags["attr_file"]), kind)
    scope = file.scope_with(typed_scope(session, flags), default_scope(session))
    check_level(scope, kind.noun, kind.levels)
    return scope, file


def _show(session: Session, kind: Kind, scope: Scope, row: Attribute) -> None:
    stream = sys.stdout if session.printer.is_table else sys.stderr
    print(f"{place(kind, scope)} (level {scope.level})", file=stream)
    print_diff(unified(row.payload, None, (f"version {row.version}", "deleted")), stream)


def _delete(session: Session, kind: Kind, scope: Scope, version: int | None, flags: Mapping[str, Any]) -> None:
    change = session.client.delete_attribute(
        kind,
        scope,
        message=flags["message"],
        claimed_by=local_user(),
        if_match=version,
        dry_run=flags["dry_run"],
    )
    for warning in change.warnings:
        session.printer.warning(warning_text(warning))
    _answer(session, kind, scope, change.document)
    if flags["dry_run"]:
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
