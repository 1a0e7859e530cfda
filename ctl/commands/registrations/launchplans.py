"""Launch plans: ways to launch a workflow, registered under versions, of which one may be active."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.diffs import print_diff, unified
from ctl.cli.groups import Command
from ctl.cli.options import Argument, Option, domain_option, dry_run_option, force_option, project_option
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.scopes import project_domain
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.calls.registrations import LATEST, LAUNCH_PLAN, WORKFLOW, Identifier
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.schemas import show as shown
from ctl.commands.registrations.versions import (
    check_flags,
    created_at,
    id_part,
    note_empty,
    read_parameters,
    show,
    versions,
    wanted_version,
    write_sample,
)

_GET_HELP = """Show the launch plans of a project and domain, each with its newest version; with NAME, all versions of
one; with --version or --latest, one version.

--execFile writes a file for `rainbowctl create execution --execFile`, with a value for each input: of --version, else
of the active version, else of the newest.
"""
_UPDATE_HELP = """Activate or deactivate a version of a launch plan.

At most one version of a launch plan is active: activating one deactivates the other. Executions without a version
launch the active one. Shows the difference and asks for confirmation on a terminal.
"""


def get_launchplan() -> click.Command:
    def run(session: Session, name: str | None, workflow: str | None, **flags: Any) -> None:
        check_flags(session, name, flags, "launch plan")
        project, domain = project_domain(session)
        if name is None:
            launch_plans = list(session.client.registered(LAUNCH_PLAN, project, domain, workflow=workflow))
            show(session, "launchplan", launch_plans, launch_plans, _LIST)
            if not launch_plans:
                note_empty(session, "launch plan", project, domain)
            return
        if workflow is not None:
            raise InvalidInput(f"--workflow filters the list, and {name} is one launch plan: leave out one of the two.")
        version = wanted_version(flags)
        if version is None and not flags["exec_file"]:
            launch_plans = versions(session, LAUNCH_PLAN, "launch plan", project, domain, name)
            show(session, "launchplan", launch_plans, launch_plans, _VERSIONS)
            return
        launch_plan = _read_launch_plan(session, project, domain, name, version)
        if flags["exec_file"]:
            _sample(session, flags, launch_plan)
        else:
            show(session, "launchplan", [launch_plan], launch_plan, _VERSIONS)

    return Command(
        "launchplan",
        run,
        help=_GET_HELP,
        takes=("project", "domain"),
        params=[
            *read_parameters("launch plan"),
            Option(["-w", "--workflow"], metavar="NAME", help="Launch plans of this workflow."),
        ],
        examples=[
            "rainbowctl get launchplan -p flytesnacks -d development",
            "rainbowctl get launchplan -p flytesnacks -d development --workflow train",
            "rainbowctl get launchplan nightly -p flytesnacks -d development --latest -o yaml",
            "rainbowctl get launchplan nightly -p flytesnacks -d development --execFile run.yaml",
        ],
    )


def create_launchplan() -> click.Command:
    from ctl.commands.registrations.create import activate_option, create_registered

    examples = [
        "rainbowctl create launchplan --file nightly.yaml -p flytesnacks -d development --activate",
        "rainbowctl create launchplan --file nightly.yaml -p flytesnacks -d development --version v2 --dryRun",
    ]
    return create_registered(LAUNCH_PLAN, "launchplan", examples, activate_option())


def update_launchplan() -> click.Command:
    def run(session: Session, name: str, **flags: Any) -> None:
        state = _state_from_flags(flags)
        project, domain = project_domain(session)
        id = Identifier(project=project, domain=domain, name=name, version=flags["version"])
        current = session.client.registration(LAUNCH_PLAN, id)
        id = Identifier.from_document(current["id"])
        if current.get("state") == state:
            _report(session, id, current)
            session.printer.note(f"No changes: launch plan {name} version {id.version} is {state} already.")
            return
        _confirmed(session, id, current, state, flags)
        if flags["dry_run"]:
            _report(session, id, {**current, "state": state})
            session.printer.note("Dry run: nothing was written.")
            return
        updated = session.client.set_launch_plan_state(id, state)
        _report(session, id, updated)
        done = "Activated" if state == "ACTIVE" else "Deactivated"
        session.printer.note(f"{done} launch plan {name} version {id.version}.")

    return Command(
        "launchplan",
        run,
        help=_UPDATE_HELP,
        takes=("project", "domain"),
        params=[
            Argument("name", explanation="Name of the launch plan."),
            project_option(),
            domain_option(),
            Option(["--version"], metavar="V", required=True, help="Version; latest is the newest."),
            Option(["--activate"], is_flag=True, help="Make it the active version."),
            Option(["--deactivate"], is_flag=True, help="Make it inactive."),
            Option(["--archive"], is_flag=True, hidden=True),
            dry_run_option("Show what would change, and change nothing."),
            force_option("Do not ask."),
        ],
        examples=[
            "rainbowctl update launchplan nightly -p flytesnacks -d development --version v2 --activate",
            "rainbowctl update launchplan nightly -p flytesnacks -d development --version v2 --deactivate --force",
        ],
    )


def _state_from_flags(flags: Mapping[str, Any]) -> str:
    deactivates = flags["deactivate"] or flags["archive"]
    if flags["activate"] and deactivates:
        raise InvalidInput("--activate and --deactivate contradict each other: keep one.")
    if not flags["activate"] and not deactivates:
        raise InvalidInput("Nothing to update: give --activate or --deactivate.")
    return "ACTIVE" if flags["activate"] else "INACTIVE"


def _confirmed(session: Session, id: Identifier, current: Document, state: str, flags: Mapping[str, Any]) -> None:
    asks = is_terminal() and not flags["force"] and not flags["dry_run"]
    if asks or not session.printer.is_quiet:
        stream = sys.stdout if session.printer.is_table else sys.stderr
        print(f"launch plan {id.name} version {id.version}", file=stream)
        before, after = {"state": current.get("state")}, {"state": state}
        print_diff(unified(before, after, ("stored", "after this update")), stream)
        if state == "ACTIVE" and (other := _active(session, id)):
            session.printer.note(f"Version {other['id']['version']} is active now, and will become inactive.")
    if asks:
        confirm("Write this?", "Not confirmed: nothing was written.")


def _active(session: Session, id: Identifier) -> Document | None:
    try:
        return session.client.active_launch_plan(id.project, id.domain, id.name)
    except NotFound:
        return None


def _report(session: Session, id: Identifier, document: Document) -> None:
    session.printer.machine_output(["/".join(["launchplan", *id.document().values()])], document)


def _read_launch_plan(session: Session, project: str, domain: str, name: str, version: str | None) -> Document:
    """The version asked for; without one the active one, else the newest."""
    id = Identifier(project=project, domain=domain, name=name, version=version or LATEST)
    if version is None and (active := _active(session, id)):
        return active
    return session.client.registration(LAUNCH_PLAN, id)


def _sample(session: Session, flags: Mapping[str, Any], launch_plan: Document) -> None:
    spec = launch_plan["spec"]
    id = Identifier.from_document(launch_plan["id"])
    workflow = {"project": id.project, "domain": id.domain, **spec["workflow_id"]}
    inputs = session.client.registration(WORKFLOW, Identifier.from_document(workflow))["spec"].get("inputs") or {}
    # flytectl's key `workflow` of such a file names a launch plan.
    write_sample(
        session, flags, "workflow", id, inputs, given=spec.get("default_inputs"), fixed=spec.get("fixed_inputs")
    )


def _workflow(each: Document) -> str:
    workflow = each["spec"].get("workflow_id") or {}
    return f"{workflow.get('name', '')}:{workflow.get('version', '')}"


def _inputs(each: Document) -> str:
    spec = each["spec"]
    defaults = [f"{name}={shown(value)}" for name, value in (spec.get("default_inputs") or {}).items()]
    defaults += [f"{name}={shown(value)} (fixed)" for name, value in (spec.get("fixed_inputs") or {}).items()]
    return ", ".join(defaults)


_LIST = {
    "VERSION": id_part("version"),
    "NAME": id_part("name"),
    "WORKFLOW": _workflow,
    "STATE": lambda each: each.get("state"),
    "CREATED AT": created_at,
}
_VERSIONS = {
    "VERSION": id_part("version"),
    "NAME": id_part("name"),
    "WORKFLOW": _workflow,
    "STATE": lambda each: each.get("state"),
    "INPUTS": _inputs,
    "CREATED AT": created_at,
}
