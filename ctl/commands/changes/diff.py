"""`diff`: what applying documents would change, for people and for scripts."""

from __future__ import annotations

import sys
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.session import Session
from ctl.commands.changes.documents import DOCUMENT_PARAMETERS, DOCUMENTS, PRUNE, propose, try_out
from ctl.commands.changes.reports import answer, counts, show_rows, tell_warnings

EXIT_DIFFERENT = 1
EXIT_ERROR = 2

_HELP = f"""Show the differences between documents and what is stored. Nothing is written.

{DOCUMENTS}

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
    trial = try_out(session, propose(session, flags), remedy="Look again.")
    tell_warnings(session, trial.warnings)
    if session.printer.is_table:
        show_rows(session, trial.changed_rows, with_diffs=True)
    answer(session, trial)
    if not trial.changed:
        session.printer.note("No differences.")
        return
    session.printer.note(f"{counts(trial, planned=True)}.")
    sys.stdout.flush()
    raise click.exceptions.Exit(EXIT_DIFFERENT)
