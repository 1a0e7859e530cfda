"""`delete execution`: end executions, by their names or by a selector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import dry_run_option, force_option, option, selector_option, text_option
from ctl.cli.output import Sentence
from ctl.cli.prompts import asks, confirm, confirm_many
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.errors import ClientError, InvalidInput
from ctl.client.executions import ExecutionId
from ctl.client.words import count, listed
from ctl.commands.executions.options import (
    SELECTOR,
    execution_id,
    name_argument,
    raise_failures,
    scope_options,
    selector_document,
)
from ctl.commands.executions.tables import ID_COLUMNS

#: A longer list would scroll the question off the screen.
_MOST_LISTED = 20
#: The phase of what its agent is to end.
_ABORTING = "ABORTING"
_UNCONFIRMED = "nobody has confirmed that its job has ended"

_HELP = f"""End executions: those named, or all that a selector matches. Their history stays.

A waiting execution is ABORTED at once; a running one is ABORTING until its cluster has stopped it. A finished one stays
as it is, and the exit status is 0. One whose cluster is silent (CLUSTER_SILENT) cannot be stopped; --giveUp ends it as
FAILED, or ABORTED if it was to be aborted, although its job may go on until the cluster's agent returns and ends it. It
is refused where an agent can still end the execution. Asks for confirmation on a terminal; without one,
a selector needs --force or --dryRun.

{SELECTOR}
"""


@command(
    help=_HELP,
    params=[
        name_argument(parameter="names", required=False, nargs=-1, metavar="[NAME …]"),
        *scope_options("With a selector: of all projects."),
        selector_option("End all executions that match these terms. Also --selector."),
        text_option("cause", metavar="TEXT", help="Why; kept with the execution."),
        option("giveUp", is_flag=True, help="End it without the agent of a cluster that is silent."),
        dry_run_option("Show what would be ended, and end nothing."),
        force_option("Do not ask."),
    ],
    examples=[
        "rainbowctl delete execution nightly -p flytesnacks -d development --cause 'wrong inputs'",
        "rainbowctl delete execution --filter.fieldSelector 'phase=QUEUED,cluster=east' -A --dryRun",
        "rainbowctl delete execution --selector 'workflow=train,created_at<7d' -p flytesnacks --force",
        "rainbowctl get execution -p flytesnacks --phase QUEUED -o name | xargs rainbowctl delete execution",
    ],
)
def delete_execution(session: Session, names: tuple[str, ...], **flags: Any) -> None:
    if bool(names) == (flags["selector"] is not None):
        remedy = "keep one of the two" if names else "give one of the two"
        raise InvalidInput(f"NAME or --filter.fieldSelector selects the executions to end: {remedy}.")
    if names:
        if flags["all_projects"]:
            raise InvalidInput("--allProjects goes with --filter.fieldSelector: leave it out.")
        _delete_named(session, [execution_id(session, name) for name in dict.fromkeys(names)], flags)
    else:
        _delete_selected(session, flags)


def _delete_named(session: Session, ids: Sequence[ExecutionId], flags: Mapping[str, Any]) -> None:
    if asks(flags):
        confirm(f"End {listed(map(str, ids))}?", "Not confirmed: nothing was ended.")
    if flags["dry_run"]:
        session.printer.note("Dry run: nothing was ended.")
    outcomes: list[Document] = []
    errors: list[tuple[ExecutionId, ClientError]] = []
    for id in ids:
        try:
            outcome = session.client.terminate_execution(id, **_options(flags), dry_run=flags["dry_run"])
        except ClientError as error:
            errors.append((id, error))
            continue
        outcomes.append(outcome)
        if flags["dry_run"]:
            effect = f"Execution {id} is {outcome.get('phase')}: it {_effect(outcome, is_given_up=flags['give_up'])}."
            session.printer.note(f"{effect} {outcome['message']}" if outcome.get("message") else effect)
        else:
            _note_outcome(session, id, outcome, is_given_up=flags["give_up"])
    _answer(session, outcomes)
    raise_failures(errors, len(ids), "given up" if flags["give_up"] else "ended")


def _options(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {"cause": flags["cause"] or "", "claimed_by": local_user(), "give_up": flags["give_up"]}


def _effect(outcome: Document, *, is_given_up: bool) -> str:
    """What would become of an execution, by the answer to a dry run."""
    after = outcome.get("phase_after")
    if not outcome.get("changed"):
        return "is being ended already" if outcome.get("phase") == _ABORTING else "has ended already"
    if is_given_up:
        return f"would be given up, and {after}{_though_unconfirmed(outcome)}"
    return f"would be ended: {_ABORTING} until its agent confirms" if after == _ABORTING else "would be ended"


def _though_unconfirmed(outcome: Document) -> str:
    """That nobody has confirmed the end of what is given up, unless the message of the admin says so."""
    is_told = _UNCONFIRMED in str(outcome.get("message") or "").lower()
    return "" if is_told else f", though {_UNCONFIRMED}"


def _note_outcome(session: Session, id: ExecutionId, outcome: Document, *, is_given_up: bool) -> None:
    phase, message = outcome.get("phase", ""), outcome.get("message")
    if not outcome.get("changed"):
        text = f"Execution {id} is {phase} already: nothing was done."
    elif phase == _ABORTING and (outcome.get("silent_since") or message):  # an older admin has the message alone
        text = f"Execution {id} is {phase}: its agent is silent, and will be told to end it when it is heard again."
    elif phase == _ABORTING:
        text = f"Asked the agent that has execution {id} to end it: it is {phase} until that confirms."
    elif is_given_up:
        text = f"Gave up execution {id}: it is {phase}{_though_unconfirmed(outcome)}."
    else:
        text = f"Ended execution {id}: it is {phase}."
    session.printer.note(f"{text} {message}" if message else text)


def _delete_selected(session: Session, flags: Mapping[str, Any]) -> None:
    selector = selector_document(session, flags)
    options = _options(flags)
    trial = session.client.terminate_executions(selector, **options, dry_run=True)
    matched = int(trial.get("matched") or 0)
    summary = f"{count(matched, 'unfinished execution')} {'matches' if matched == 1 else 'match'}."
    if flags["dry_run"] or not matched:
        _answer(session, trial["executions"], trial)
        session.printer.note(f"{summary} {'Dry run: nothing was ended.' if flags['dry_run'] else 'Nothing to end.'}")
        _list(session, trial)
        _note_silent(session, trial["executions"], "would be told when heard again")
        return
    confirm_many(flags, summary, "End them?", "ended", lambda: _list(session, trial))
    outcome = session.client.terminate_executions(selector, **options)
    _answer(session, outcome["executions"], outcome)
    aborting = [ended for ended in outcome["executions"] if ended.get("changed") and ended.get("phase") == _ABORTING]
    rest = f" {len(aborting)} of them: ABORTING until their agents confirm." if aborting else ""
    session.printer.note(f"Ended {count(int(outcome.get('terminated') or 0), 'execution')}.{rest}")
    silent = [ended for ended in aborting if ended.get("silent_since")]
    for ended in silent[:_MOST_LISTED]:
        session.printer.note(f"Execution {ExecutionId.from_document(ended['id'])}: {ended['message']}")
    _note_silent(session, silent, "will be told when heard again")


def _note_silent(session: Session, executions: Sequence[Document], then: str) -> None:
    """How many of some executions have silent agents, and what can be done about that."""
    number = sum(bool(execution.get("silent_since")) for execution in executions)
    if number:
        them = "its agent is" if number == 1 else "their agents are"
        session.printer.note(
            f"{number} of them: {them} silent, and {then}; --giveUp ends such an execution without its agent."
        )


def _list(session: Session, answer: Document) -> None:
    """Print the first executions of an answer."""
    executions = answer.get("executions") or []
    if executions and session.printer.is_table and not session.printer.is_quiet:
        notes = {"NOTE": Sentence("message")} if any(execution.get("message") for execution in executions) else {}
        session.printer.rows(executions[:_MOST_LISTED], {**ID_COLUMNS, "PHASE": "phase", **notes})
        if len(executions) > _MOST_LISTED:
            session.printer.note(f"These are the first {_MOST_LISTED}; `rainbowctl get execution` lists them all.")


def _answer(session: Session, executions: Sequence[Document], document: Document | None = None) -> None:
    names = (ExecutionId.from_document(execution["id"]).resource for execution in executions)
    session.printer.machine_output(names, list(executions) if document is None else document)
