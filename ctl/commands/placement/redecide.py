"""`redecide`: decide waiting executions again, with the current settings."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import dry_run_option, force_option, selector_option
from ctl.cli.progress import counted
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
confirmation on a terminal; without one it needs --force. What would move is told of the oldest thousand.

{SELECTOR}
"""
#: Executions that one request decides.
_STEP = 500


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
    outcome = _decide(session, selector, int(trial.get("matched") or 0) + int(trial.get("not_examined") or 0))
    changed = int(outcome.get("changed") or 0)
    moved = int(outcome.get("moved", changed))
    session.printer.note(f"Decided {count(changed, 'execution')} again; {moved or 'none'} moved.")
    _print(session, outcome)


def _decide(session: Session, selector: Document, number: int) -> Document:
    """Decide all that match, so many in each request that none of them takes long."""
    author, token = local_user(), None
    pages: list[Document] = []
    with counted(session.printer, "Deciding again", number) as advance:
        while True:
            answer = session.client.redecide(selector, claimed_by=author, limit=_STEP, token=token)
            pages.append(answer)
            advance(int(answer.get("matched") or 0))
            if not answer.get("token") or answer["token"] == token:
                break
            token = answer["token"]
    sums: Document = {
        name: sum(int(page[name]) for page in pages) for name in ("matched", "changed", "moved") if name in answer
    }
    return {**answer, **sums, "executions": [execution for page in pages for execution in page["executions"]]}


def _summary(answer: Document) -> str:
    matched, changed = int(answer.get("matched") or 0), int(answer.get("changed") or 0)
    moved = int(answer.get("moved", changed))
    start = f"{count(matched, 'waiting execution')} {'matches' if matched == 1 else 'match'}"
    if rest := int(answer.get("not_examined") or 0):
        start = f"{matched + rest} waiting executions match, of which the oldest {matched} were looked at"
    stay = f", {changed - moved} would stay with new settings or another reason" if changed > moved else ""
    return f"{start}, {moved or 'none'} would move{stay}."


def _print(session: Session, answer: Document) -> None:
    executions = [execution for execution in answer.get("executions") or [] if execution.get("changed", True)]
    names = (ExecutionId.from_document(execution["id"]).resource for execution in executions)
    columns = {**ID_COLUMNS, "FROM": "from", "TO": "to", "REASON": reason_code}
    session.printer.show(names, executions, answer, columns)
