"""`apply`: write documents or a plan as one revision, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import SHOW_DIFF, STRICT_WRITE, Argument, write_options
from ctl.cli.progress import step
from ctl.cli.prompts import check_strict
from ctl.cli.session import Session
from ctl.client.answers import ChangeSet
from ctl.client.errors import InvalidInput
from ctl.client.words import count
from ctl.commands.changes.documents import DOCUMENT_PARAMETERS, DOCUMENTS, PRUNE, check_versions, propose, send, try_out
from ctl.commands.changes.reports import all_or_nothing, answer, is_confirmed, locate, report_outcome, tell_warnings
from ctl.files.proposals import Proposal

_HELP = f"""Apply documents as one change: all of it, or nothing.

{DOCUMENTS}

Shows the plan first: the action for each row with the file and line of each difference, how many effective values
change, and warnings. Asks for confirmation on a terminal. The change carries the version of every row in the plan: if
one of them was changed in the meantime, nothing is written, and the exit status is 5. If nothing would change, no
revision is made.

{PRUNE} Without a terminal, --prune needs --force.

With PLAN, a file that `rainbowctl plan --out` wrote, applies exactly that plan.
"""
_AGAIN = "Check with `rainbowctl diff` what would change now, then apply again."
_NEW_PLAN = "Check them with `rainbowctl history`, then make a new plan."


@command(
    help=_HELP,
    params=[
        Argument("plan", required=False, metavar="[PLAN]", explanation="File that `rainbowctl plan --out` wrote."),
        *DOCUMENT_PARAMETERS,
        SHOW_DIFF,
        *write_options("Do not ask, and ignore versions in documents and the endpoint in a plan."),
        STRICT_WRITE,
    ],
    examples=[
        "rainbowctl apply -f settings/ -m 'more memory for everyone'",
        "rainbowctl apply -f project.yaml -f limits.yaml --dryRun",
        "rainbowctl export -p flyteexamples | sed s/gpu-a/gpu-b/ | rainbowctl apply -f -",
        "rainbowctl apply -f settings/ --prune -p flyteexamples --force",
        "rainbowctl apply week.plan",
    ],
)
def apply(session: Session, plan: str | None, **flags: Any) -> None:
    proposal = propose(session, flags) if plan is None else _planned(session, plan, flags)
    remedy = _AGAIN if plan is None else _NEW_PLAN
    trial = try_out(session, proposal, remedy=remedy)
    positions = locate(proposal, trial)
    if not trial.changed:
        number = count(len(proposal.changes), "row")
        session.printer.note(f"No changes: everything is already as requested ({number}).")
        answer(session, trial)
        tell_warnings(session, trial.warnings)
        check_strict(flags, trial.warnings, "nothing needed to be written")
        return
    if not flags["force"]:
        check_versions(session, proposal, trial)
    check = _check_prune if flags["prune"] else lambda trial: None
    if not is_confirmed(session, flags, trial, check, positions):
        check_strict(flags, trial.warnings, "nothing was written")
        return
    changes = proposal.expecting(trial)
    writing = step(session.printer, f"Writing {count(len(trial.changed_rows), 'change')}", len(changes))
    with all_or_nothing(trial.revision), writing:
        outcome = send(session, proposal, changes, remedy=remedy, message=flags["message"])
    report_outcome(session, flags, outcome, trial, "Applied")


def _planned(session: Session, path: str, flags: Mapping[str, Any]) -> Proposal:
    from ctl.files.plans import read_plan

    if flags["files"] or flags["prune"]:
        raise InvalidInput(f"{path} is a complete plan: leave out -f and --prune, or leave out the plan.")
    plan = read_plan(path)
    if plan.endpoint != session.client.endpoint and not flags["force"]:
        raise InvalidInput(
            f"{path} was made for {plan.endpoint}, and this is {session.client.endpoint}. Choose that endpoint or "
            "context, or use --force if both are the same admin."
        )
    by = f" by {plan.made_by}" if plan.made_by else ""
    session.printer.note(f"{path}: made at {plan.made_at}{by} from revision {plan.revision}.")
    return Proposal.from_plan(path, plan.changes)


def _check_prune(trial: ChangeSet) -> None:
    deleted = sum(row.action == "delete" for row in trial.rows)
    if deleted:
        raise InvalidInput(
            f"--prune would delete {count(deleted, 'row')}, and there is no terminal to ask at: use --force. "
            "Nothing was written."
        )
