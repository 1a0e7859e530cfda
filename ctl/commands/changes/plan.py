"""`plan`: show what applying documents would change, and save it as a file to apply later."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import SHOW_DIFF, Option, force_option, strict_option
from ctl.cli.prompts import check_strict
from ctl.cli.session import Session, local_user
from ctl.commands.changes.documents import DOCUMENT_PARAMETERS, DOCUMENTS, PRUNE, check_versions, propose, try_out
from ctl.commands.changes.reports import answer, locate, show_plan, tell_warnings

_HELP = f"""Show what applying documents would change. Nothing is written to the admin.

{DOCUMENTS}

--out writes the plan to a file for `rainbowctl apply FILE`. It holds the versions of all rows it was made from, changed
or not: if one of them has changed since, apply refuses it with exit status 5.

Each difference is shown with the file, line and column that it comes from, and so are the warnings, after them. -o wide
also lists the effective values that change, the first hundred of them.

{PRUNE}
"""


@command(
    help=_HELP,
    params=[
        *DOCUMENT_PARAMETERS,
        Option(["--out"], metavar="FILE", help="Write the plan to a file."),
        SHOW_DIFF,
        force_option("Overwrite FILE, and ignore versions in documents."),
        strict_option(),
    ],
    examples=[
        "rainbowctl plan -f settings/",
        "rainbowctl plan -f settings/ --prune -p flyteexamples --out week.plan",
        "rainbowctl apply week.plan",
    ],
)
def plan(session: Session, **flags: Any) -> None:
    proposal = propose(session, flags)
    trial = try_out(session, proposal, remedy="Look again.")
    positions = locate(proposal, trial)
    if not flags["force"]:
        check_versions(session, proposal, trial)
    if not session.printer.is_quiet:
        show_plan(session, trial, with_diffs=True if flags["show_diff"] else None, positions=positions)
    answer(session, trial)
    tell_warnings(session, trial.warnings)
    if flags["out"]:
        _write_plan(session, str(flags["out"]), proposal.expecting(trial), trial.revision, is_forced=flags["force"])
    check_strict(flags, trial.warnings, "nothing was written to the admin")


def _write_plan(session: Session, path: str, changes: list[dict[str, Any]], revision: int, *, is_forced: bool) -> None:
    from ctl.cli.files import write_new
    from ctl.files.plans import Plan

    kept = Plan(
        endpoint=session.client.endpoint,
        made_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        made_by=local_user(),
        revision=revision,
        changes=changes,
    )
    write_new(Path(path), kept.text(), is_forced=is_forced)
    session.printer.note(f"Wrote the plan to {path}: `rainbowctl apply {path}` applies it.")
