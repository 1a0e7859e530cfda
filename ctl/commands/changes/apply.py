"""`apply`: write documents or a plan as one revision, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import Argument, dry_run_option, force_option, message_option, option, strict_option
from ctl.cli.progress import step
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session
from ctl.client.answers import ChangeSet
from ctl.client.errors import InvalidInput
from ctl.client.words import count
from ctl.commands.changes.documents import DOCUMENTS, PRUNE, document_parameters, propose, send, try_out
from ctl.commands.changes.reports import all_or_nothing, answer, check_strict, counts, show_plan, tell_warnings
from ctl.files.proposals import Proposal

_HELP = f"""Apply documents as one change: all of it, or nothing.

{DOCUMENTS}

Shows the plan first: the action for each row, and how many effective values change. Asks for confirmation on a
terminal. The change carries the version of every row in the plan: if one of them was changed in the meantime, nothing
is written, and the exit status is 5. If nothing would change, no revision is made.

{PRUNE} Without a terminal, --prune needs --force.

With PLAN, a file that `rainbowctl plan --out` wrote, applies exactly that plan.
"""
_AGAIN = "Check with `rainbowctl diff` what would change now, then apply again."
_NEW_PLAN = "Check them with `rainbowctl history`, then make a new plan."


@command(
    "apply",
    help=_HELP,
    params=[
        Argument("plan", required=False, metavar="[PLAN]", explanation="File that `rainbowctl plan --out` wrote."),
        *document_parameters(),
        option(
            "showDiff",
            is_flag=True,
            help="Show the differences even if many rows change.",
        ),
        dry_run_option(),
        force_option("Do not ask, and ignore versions in documents and the endpoint in a plan."),
        message_option(),
        strict_option("Exit with 7 if there are warnings; the change is still written."),
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
    if plan is None:
        _Apply(session, flags, propose(session, flags), _AGAIN).run()
    else:
        _Apply(session, flags, _planned(session, plan, flags), _NEW_PLAN).run()


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


class _Apply:
    """One change, step by step: the dry run, the plan, the question, the write."""

    def __init__(self, session: Session, flags: Mapping[str, Any], proposal: Proposal, remedy: str) -> None:
        self.session = session
        self.printer = session.printer
        self.flags = flags
        self.proposal = proposal
        self.remedy = remedy

    def run(self) -> None:
        trial = try_out(self.session, self.proposal, remedy=self.remedy)
        tell_warnings(self.session, trial.warnings)
        if not trial.changed:
            answer(self.session, trial)
            number = count(len(self.proposal.changes), "row")
            self.printer.note(f"No changes: everything is already as requested ({number}).")
            self._strict(trial, "nothing needed to be written")
            return
        if not self.flags["force"]:
            self.proposal.check_versions(trial, self.session.client.noun)
        asks = is_terminal() and not self.flags["force"] and not self.flags["dry_run"]
        if asks or not self.printer.is_quiet:
            show_plan(self.session, trial, with_diffs=True if self.flags["show_diff"] else None)
        if self.flags["dry_run"]:
            answer(self.session, trial)
            self.printer.note("Dry run: nothing was written.")
            self._strict(trial, "nothing was written")
            return
        if asks:
            confirm("Write this?", "Not confirmed: nothing was written.")
        else:
            self._check_prune(trial)
        self._write(trial)

    def _check_prune(self, trial: ChangeSet) -> None:
        deleted = sum(row.action == "delete" for row in trial.rows)
        if self.flags["prune"] and deleted and not self.flags["force"]:
            raise InvalidInput(
                f"--prune would delete {count(deleted, 'row')}, and there is no terminal to ask at: use --force. "
                "Nothing was written."
            )

    def _write(self, trial: ChangeSet) -> None:
        changes = self.proposal.expecting(trial)
        writing = step(self.printer, f"Writing {count(len(trial.changed_rows), 'change')}", len(changes))
        with all_or_nothing(trial.revision), writing:
            outcome = send(self.session, self.proposal, changes, remedy=self.remedy, message=self.flags["message"])
        tell_warnings(self.session, outcome.warnings, trial.warnings)
        answer(self.session, outcome)
        self.printer.note(f"Applied as revision {outcome.revision}: {counts(outcome)}.")
        self._strict(outcome, "the change was written")

    def _strict(self, outcome: ChangeSet, words: str) -> None:
        check_strict(outcome, is_strict=self.flags["strict"], outcome_words=words)
