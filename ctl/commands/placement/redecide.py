"""`redecide`: decide waiting executions again, with the current settings."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import dry_run_option, force_option, selector_option
from ctl.cli.prompts import confirm_many
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.executions import ExecutionId
from ctl.client.words import count
from ctl.commands.executions.options import SELECTOR, scope_options, selector_document
from ctl.commands.executions.tables import ID_COLUMNS, reason_code

_HELP = f"""Decide waiting executions again, with the current settings.

Settings are resolved when an execution is created; later only a change of the fleet decides it again. redecide applies
settings that were changed since. Running and finished executions are left alone. Shows what would move and asks for
confirmation on a terminal; without one it needs --force.

{SELECTOR}
"""


@command(
    help=_HELP,
    params=[
        *scope_options(),
        selector_option("Executions that match these terms. Also --selector."),
        dry_run_option("Show what would move, and move nothing."),
        force_option("Do not ask."),
    ],
    examples=[
        "rainbowctl redecide --filter.fieldSelector 'phase=QUEUED,pool=gpu' -p flytesnacks --dryRun",
        "rainbowctl redecide --filter.fieldSelector reason=CLUSTERS_FULL --allProjects --force",
    ],
)
def redecide(session: Session, **flags: Any) -> None:
    if flags["selector"] is None:
        raise InvalidInput("Which executions? Give --filter.fieldSelector, as in --filter.fieldSelector cluster=east.")
    selector = selector_document(session, flags)
    trial = session.client.redecide(selector, dry_run=True)
    if flags["dry_run"] or not trial.get("changed"):
        end = "Dry run: nothing was decided." if flags["dry_run"] else "Nothing to decide."
        session.printer.note(f"{_summary(trial)} {end}")
        _print(session, trial)
        return
    confirm_many(flags, _summary(trial), "Decide them again?", "decided", lambda: _print(session, trial))
    outcome = session.client.redecide(selector, claimed_by=local_user())
    changed = int(outcome.get("changed") or 0)
    moved = int(outcome.get("moved", changed))
    session.printer.note(f"Decided {count(changed, 'execution')} again; {moved or 'none'} moved.")
    _print(session, outcome)


def _summary(answer: Document) -> str:
    matched, changed = int(answer.get("matched") or 0), int(answer.get("changed") or 0)
    moved = int(answer.get("moved", changed))
    start = f"{count(matched, 'waiting execution')} {'matches' if matched == 1 else 'match'}"
    stay = f", {changed - moved} would stay with new settings or another reason" if changed > moved else ""
    return f"{start}, {moved or 'none'} would move{stay}."


def _print(session: Session, answer: Document) -> None:
    executions = [execution for execution in answer.get("executions") or [] if execution.get("changed", True)]
    names = (ExecutionId.from_document(execution["id"]).resource for execution in executions)
    columns = {**ID_COLUMNS, "FROM": "from", "TO": "to", "REASON": reason_code}
    session.printer.show(names, executions, answer, columns)
