"""`create workflow` and `create launchplan`, and how documents are registered one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import MESSAGE, Option, domain_option, dry_run_option, project_option
from ctl.cli.scopes import default_scope
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document, warning_text
from ctl.client.calls.base import Reasons, WriteOptions
from ctl.client.calls.registrations import LATEST, LAUNCH_PLAN, WORKFLOW, Identifier
from ctl.client.errors import Conflict, InvalidRequest, NotFound
from ctl.files.registrations import TITLES, Registration, read_registrations

#: In the help of every command that registers.
DOCUMENTS = """A workflow is a document with name, version, description, inputs and job; a launch plan one with name,
version, description, workflow (its name, or {name, version, project, domain}) and any of workflowVersion,
defaultInputs, fixedInputs, clusterPool, executionClusterLabel, labels, annotations, envs, kubeServiceAcct, iamRoleARN,
securityContext, authRole, maxParallelism, interruptible, overwriteCache, outputLocationPrefix, qualityOfService,
tokenPools, retry (of attempts, backoff, retryOn and onLost) and active. A document without project and domain
takes those of -p and -d. A launch plan without the version of its workflow launches the one registered last. A
registered version is never changed: registering the same content again succeeds, other content is refused."""


VERSION = Option(["--version"], metavar="V", help="Version of documents without one.")
ACTIVATE = Option(["--activate"], is_flag=True, help="Activate launch plans, except those with `active: false`.")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One document that was registered, or would be."""

    item: Registration
    answer: Document
    was_new: bool
    was_activated: bool = False
    is_trial: bool = False  #: of a dry run
    was_checked: bool = True  #: not in a dry run that depends on what only that run would register

    @property
    def warnings(self) -> list[Document]:
        return self.answer.get("warnings") or []

    @property
    def info(self) -> str:
        """The outcome as text."""
        if not self.was_checked:
            return "not checked further: its workflow would be registered with it"
        new = "would be registered" if self.is_trial else "registered"
        done = new if self.was_new else "registered already with the same content"
        return f"{done}, activated" if self.was_activated else done


class Registrar:
    """Registers documents, workflows before the launch plans that launch them."""

    def __init__(self, session: Session, *, message: str | None, dry_run: bool) -> None:
        self.client = session.client
        self.printer = session.printer
        self.dry_run = dry_run
        self._reasons: Reasons = {"message": message, "claimed_by": local_user()}
        self._options: WriteOptions = {**self._reasons, "dry_run": dry_run}
        self._planned: list[Identifier] = []  #: workflows that a dry run has only looked at

    def register(self, item: Registration) -> Registered:
        """Register one and print its warnings; a refusal names the place in its file."""
        try:
            done = self._workflow(item) if item.noun == WORKFLOW else self._launch_plan(item)
        except (InvalidRequest, NotFound, Conflict) as error:
            raise item.locate(error) from None
        for warning in done.warnings:
            self.printer.warning(f"{item.title}: {warning_text(warning)}")
        return done

    def _workflow(self, item: Registration) -> Registered:
        answer = self.client.register(WORKFLOW, item.id, item.spec, **self._options)
        if self.dry_run:
            self._planned.append(item.id)
        return Registered(item=item, answer=answer, was_new=bool(answer.get("created")), is_trial=self.dry_run)

    def _launch_plan(self, item: Registration) -> Registered:
        workflow = self._workflow_id(item)
        spec = {"workflow_id": workflow.document(), **item.spec}
        try:
            answer = self.client.register(LAUNCH_PLAN, item.id, spec, is_active=bool(item.active), **self._options)
        except NotFound:
            if workflow not in self._planned:
                raise
            document = {"launch_plan": {"id": item.id.document(), "spec": spec}, "created": True}
            return Registered(item=item, answer=document, was_new=True, was_checked=False)
        was_new = bool(answer.get("created"))
        was_activated = was_new and bool(item.active)
        if item.active and not self.dry_run and (answer.get("launch_plan") or {}).get("state") != "ACTIVE":
            # It was registered before, and a registration changes nothing of that.
            answer["launch_plan"] = self.client.set_launch_plan_state(item.id, "ACTIVE", **self._reasons)
            was_activated = True
        return Registered(item=item, answer=answer, was_new=was_new, was_activated=was_activated, is_trial=self.dry_run)

    def _workflow_id(self, item: Registration) -> Identifier:
        workflow_id = item.workflow_id()
        if "version" in workflow_id:
            return Identifier.from_document(workflow_id)
        newest = Identifier.from_document({**workflow_id, "version": LATEST})
        for planned in reversed(self._planned):
            if planned.document() == {**newest.document(), "version": planned.version}:
                return planned
        return Identifier.from_document(self.client.registration(WORKFLOW, newest)["id"])


def complete(session: Session, items: Sequence[Registration], flags: Mapping[str, Any]) -> list[Registration]:
    """The documents with the defaults of the command line, workflows first."""
    scope = default_scope(session)
    completed = [item.completed(scope["project"], scope["domain"], flags["version"]) for item in items]
    return sorted(completed, key=lambda item: item.noun == LAUNCH_PLAN)


def _create(noun: str, word: str, examples: Sequence[str], *more: click.Parameter) -> Command:
    def run(session: Session, **flags: Any) -> None:
        items = complete(session, read_registrations([flags["file"]], noun), flags)
        registrar = Registrar(session, message=flags["message"], dry_run=flags["dry_run"])
        outcomes = []
        for item in items:
            outcomes.append(registrar.register(activated(item, flags.get("activate", False))))
            _note(session, outcomes[-1], flags["dry_run"])
        _answer(session, word, outcomes)

    return Command(
        run,
        help=f"Register a {TITLES[noun]} from a file; `kind` may be left out.\n\n{DOCUMENTS}",
        params=[
            Option(
                ["-f", "--file"], metavar="FILE", required=True, help="File with one or more documents; - is stdin."
            ),
            project_option(),
            domain_option(),
            VERSION,
            *more,
            MESSAGE,
            dry_run_option(),
        ],
        examples=examples,
    )


def activated(item: Registration, is_wanted: bool) -> Registration:
    """A launch plan that is activated unless its document says otherwise."""
    from dataclasses import replace

    return replace(item, active=True) if is_wanted and item.noun == LAUNCH_PLAN and item.active is None else item


def _note(session: Session, outcome: Registered, dry_run: bool) -> None:
    title = outcome.item.title
    if dry_run:
        session.printer.note(f"Dry run: {title} was not registered.")
    elif outcome.was_new:
        session.printer.note(f"Registered {title}{' and activated it' if outcome.was_activated else ''}.")
    else:
        done = "activated it" if outcome.was_activated else "nothing was done"
        session.printer.note(f"{title[0].upper()}{title[1:]} is registered already with the same content: {done}.")


def _answer(session: Session, word: str, outcomes: Sequence[Registered]) -> None:
    names = ("/".join([word, *outcome.item.id.document().values()]) for outcome in outcomes)
    answers = [outcome.answer for outcome in outcomes]
    session.printer.machine_output(names, answers[0] if len(answers) == 1 else answers)


create_workflow = _create(
    WORKFLOW,
    "workflow",
    [
        "rainbowctl create workflow --file train.yaml -p flytesnacks -d development",
        "rainbowctl create workflow --file train.yaml -p flytesnacks -d development --version v2 --dryRun",
        "rainbowctl create workflow --file train.yaml -p flytesnacks -d development -m 'larger batches'",
    ],
)
create_launchplan = _create(
    LAUNCH_PLAN,
    "launchplan",
    [
        "rainbowctl create launchplan --file nightly.yaml -p flytesnacks -d development --activate",
        "rainbowctl create launchplan --file nightly.yaml -p flytesnacks -d development --version v2 --dryRun",
    ],
    ACTIVATE,
)
