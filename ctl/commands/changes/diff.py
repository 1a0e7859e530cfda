"""`diff`: what applying documents would change, for people and for scripts."""

from __future__ import annotations

import sys
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.session import Session
from ctl.commands.changes.documents import DOCUMENT_PARAMETERS, DOCUMENTS, PRUNE, propose, stale_documents, try_out
from ctl.commands.changes.reports import answer, counts, locate, show_rows, tell_warnings

EXIT_DIFFERENT = 1
EXIT_ERROR = 2

_HELP = f"""Show the differences between documents and what is stored. Nothing is written.

{DOCUMENTS}

Each difference is shown with the file, line and column that it comes from, before any warnings, which have theirs too;
a field that a document leaves out, with the start of the document.

Exit status: 0 when nothing would change, 1 when something would, 2 for any error.

{PRUNE} Here such rows are shown as deleted.
"""


@command(
    help=_HELP,
    params=DOCUMENT_PARAMETERS,
    examples=[
        "rainbowctl diff -f settings/",
        "rainbowctl diff -f settings/ --prune -p flyteexamples",
        "rainbowctl diff -f - -o json < settings.yaml",
    ],
)
def diff(session: Session, **flags: Any) -> None:
    session.error_status = EXIT_ERROR
    proposal = propose(session, flags)
    trial = try_out(session, proposal, remedy="Look again.")
    positions = locate(proposal, trial)
    warnings = [*stale_documents(session, proposal, trial), *trial.warnings]
    trial.document["warnings"] = warnings
    session.printer.note(f"{counts(trial, planned=True)}." if trial.changed else "No differences.")
    if session.printer.is_table:
        show_rows(session, trial.changed_rows, with_diffs=True, positions=positions)
    answer(session, trial)
    sys.stdout.flush()  # what differs stands before what is only questionable
    tell_warnings(session, warnings)
    if trial.changed:
        raise click.exceptions.Exit(EXIT_DIFFERENT)
