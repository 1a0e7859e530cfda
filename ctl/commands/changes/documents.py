"""What apply, diff and plan share: reading documents, and asking the admin what they would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.options import Option, filter_parameters
from ctl.cli.progress import MANY, step
from ctl.cli.provenance import LATER_KEYS, describe_later
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session, local_user
from ctl.client.answers import Attribute, ChangeSet, Document
from ctl.client.errors import Conflict, InvalidInput, InvalidRequest
from ctl.client.words import count
from ctl.files.proposals import Proposal

if TYPE_CHECKING:
    from ctl.files.document_sets import Declaration

#: In the help of every command that reads documents.
DOCUMENTS = """A document is an attribute file with its kind (`kind: execution-cluster-label`), a project
(`kind: project`, with id, name, description, labels and state), a `kind: cluster`, `pool`, `label`, `group`,
`cluster-group` or `token-pool` with its name and its complete definition, or a `kind: grant` or `use-grant`. A file
holds any number of documents, separated by `---`. A directory stands for all .yaml, .yml and .json files below it;
hidden files are skipped, and any other file is refused. `version` in a document is the version of the row it was made
from."""

PRUNE = """--prune also deletes stored rows that are in no document, within a scope that you give: -p, -d, -w and
--launchplan select the rows with these keys, -A selects all rows. Projects, and what has a name, such as a pool
or a grant, are never deleted."""


#: Flags for the documents, and for what is not among them.
DOCUMENT_PARAMETERS: Sequence[click.Parameter] = [
    Option(
        ["-f", "--file", "files"],
        metavar="FILE|DIR|-",
        multiple=True,
        help="File, directory, or - for stdin. Repeatable.",
    ),
    Option(["--prune"], is_flag=True, help="Delete rows of the given scope that are in no document."),
    *filter_parameters("With --prune: rows", "With --prune: all rows."),
]


def propose(session: Session, flags: Mapping[str, Any]) -> Proposal:
    """The changes that the documents ask for, and with --prune what they leave out."""
    if not flags["files"]:
        raise InvalidInput("Which documents? Give -f FILE, -f DIR, or -f - for stdin.")
    filters = _prune_filters(session, flags)
    declarations = read(session, flags["files"])
    if filters is None:
        return Proposal.from_documents(declarations)
    with step(session.printer, "Reading what is stored"):
        return Proposal.from_documents(declarations, _left_out(session, filters, declarations))


def read(session: Session, files: Sequence[str]) -> list[Declaration]:
    """The documents, checked as far as that is possible without the admin."""
    from ctl.files.document_sets import KindWords, read_documents

    with step(session.printer, "Reading documents"):
        declarations = read_documents(files, KindWords(session.client.kinds))
    if len(declarations) >= MANY:
        places = len({declaration.file.name for declaration in declarations})
        session.printer.note(f"Read {count(len(declarations), 'document')} from {count(places, 'file')}.")
    return declarations


def _prune_filters(session: Session, flags: Mapping[str, Any]) -> dict[str, str] | None:
    filters = scope_filters(session, flags)
    if not flags["prune"]:
        if filters or flags["all_scopes"]:
            raise InvalidInput(
                "-p, -d, -w, --launchplan and -A say what --prune may delete, and documents name their scope "
                "themselves: add --prune, or leave them out."
            )
        return None
    if filters and flags["all_scopes"]:
        raise InvalidInput("-A means all rows, -p, -d, -w and --launchplan some of them: keep one or the other.")
    if not filters and not flags["all_scopes"]:
        raise InvalidInput(
            "--prune needs a scope: say with -p, -d, -w or --launchplan which rows it may delete, or -A for all."
        )
    return filters


def _left_out(session: Session, filters: Mapping[str, Any], declarations: Sequence[Declaration]) -> list[Attribute]:
    named = {declaration.identity for declaration in declarations}
    rows = session.client.list_attributes(None, page_size=1000, **filters)
    return [row for row in rows if (row.kind, row.scope) not in named]


def try_out(session: Session, proposal: Proposal, *, remedy: str) -> ChangeSet:
    """The dry run of a proposal; a refusal names the documents."""
    number = len(proposal.changes)
    with step(session.printer, f"Planning {count(number, 'change')}", number):
        return send(session, proposal, proposal.changes, remedy=remedy, dry_run=True)


def send(
    session: Session,
    proposal: Proposal,
    changes: list[dict[str, Any]],
    *,
    remedy: str,
    message: str | None = None,
    dry_run: bool = False,
) -> ChangeSet:
    """Send the changes of a proposal; `remedy` is what to do when rows have moved."""
    try:
        return session.client.change_attributes(changes, message=message, claimed_by=local_user(), dry_run=dry_run)
    except InvalidRequest as error:
        if error.name == "body_too_large":
            error.message = "All this is more than one request can hold (32 MiB): apply it in parts."
        raise proposal.locate(error) from None
    except Conflict as error:
        if error.name != "version_conflict":
            raise
        conflict = proposal.moved(error.details, session.client.noun, remedy, error)
        raise _explained(session, conflict) from None


def check_versions(session: Session, proposal: Proposal, trial: ChangeSet) -> None:
    """Refuse documents that were made from another version of a row they would change, and say who changed it since."""
    try:
        proposal.check_versions(trial, session.client.noun)
    except Conflict as conflict:
        stale = {int(detail["index"]): detail for detail in conflict.details}
        changes = [{**proposal.changes[index], "expected_version": stale[index]["expected_version"]} for index in stale]
        try:
            session.client.change_attributes(changes, dry_run=True)
        except Conflict as error:
            rows = list(stale.values())  # in the order in which they were sent, which their indexes are of
            for detail in error.details:
                row = rows[int(detail["index"])]
                row |= {key: detail[key] for key in LATER_KEYS if key in detail}
        raise _explained(session, conflict) from None


def stale_documents(session: Session, proposal: Proposal, trial: ChangeSet | None = None) -> list[Document]:
    """A warning for each document that apply and plan would refuse, since its row was changed after it was written.

    The rows are compared with a dry run; it is made where none is given and a document names a version.
    """
    if all(declaration.file.version is None for declaration in proposal.declarations):
        return []
    try:
        check_versions(session, proposal, trial or try_out(session, proposal, remedy="Look again."))
    except Conflict as conflict:
        keys = ("index", "position", "expected_version", "current_version", *LATER_KEYS)
        return [
            {
                "code": "stale_version",
                "message": f"{detail['reason']}. plan and apply refuse the document unless --force is given.",
                **{key: detail[key] for key in keys if detail.get(key) is not None},
            }
            for detail in conflict.details
        ]
    return []


def _explained(session: Session, conflict: Conflict) -> Conflict:
    """A conflict that says of each row who changed it since."""
    for detail in conflict.details:
        if detail.get("provenance") or detail.get("later"):
            detail["reason"] += f" ({describe_later(session.printer, detail)})"
    return conflict
