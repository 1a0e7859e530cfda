"""Workflows: jobs with typed inputs, registered under versions. A task is one too."""

from __future__ import annotations

from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.scopes import project_domain
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.calls.registrations import LATEST, WORKFLOW, Identifier
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

_HELP = """Show the {noun}s of a project and domain, each with its newest version; with NAME, all versions of one; with
--version or --latest, one version with its inputs and outputs.{about}

--execFile writes a file for `rainbowctl create execution --execFile`, with a value for each input: of --version, else
of the newest version.
"""


def get_workflow() -> click.Command:
    return _get("workflow", "")


def get_task() -> click.Command:
    return _get("task", " A task is registered as a workflow: this is the same as `get workflow`.")


def create_workflow() -> click.Command:
    from ctl.commands.registrations.create import create_registered

    examples = [
        "rainbowctl create workflow --file train.yaml -p flytesnacks -d development",
        "rainbowctl create workflow --file train.yaml -p flytesnacks -d development --version v2 --dryRun",
    ]
    return create_registered(WORKFLOW, "workflow", examples)


def _get(noun: str, about: str) -> click.Command:
    def run(session: Session, name: str | None, **flags: Any) -> None:
        check_flags(session, name, flags, noun)
        project, domain = project_domain(session)
        if name is None:
            workflows = list(session.client.registered(WORKFLOW, project, domain))
            show(session, noun, workflows, workflows, _LIST)
            if not workflows:
                note_empty(session, noun, project, domain)
            return
        version = wanted_version(flags)
        if version is None and not flags["exec_file"]:
            workflows = versions(session, WORKFLOW, noun, project, domain, name)
            show(session, noun, workflows, workflows, _VERSIONS)
            return
        id = Identifier(project=project, domain=domain, name=name, version=version or LATEST)
        workflow = session.client.registration(WORKFLOW, id)
        if flags["exec_file"]:
            inputs = workflow["spec"].get("inputs") or {}
            write_sample(session, flags, "task", Identifier.from_document(workflow["id"]), inputs)
        else:
            show(session, noun, [workflow], workflow, _ONE)

    return Command(
        noun,
        run,
        help=_HELP.format(noun=noun, about=about),
        takes=("project", "domain"),
        params=read_parameters(noun),
        examples=[
            f"rainbowctl get {noun} -p flytesnacks -d development",
            f"rainbowctl get {noun} train -p flytesnacks -d development --latest -o yaml",
            f"rainbowctl get {noun} train -p flytesnacks -d development --execFile run.yaml",
        ],
    )


def show_inputs(inputs: Document) -> str:
    """Declared inputs in one table cell: `epochs (integer), rate (float)`."""
    types = {name: each.get("type") if isinstance(each, dict) else each for name, each in inputs.items()}
    return ", ".join(f"{name} ({type})" for name, type in types.items())


def _inputs(each: Document) -> str:
    return show_inputs(each["spec"].get("inputs") or {})


def _outputs(each: Document) -> str:
    return ", ".join((each["spec"].get("job") or {}).get("outputs") or [])


_LIST = {
    "PROJECT": id_part("project"),
    "DOMAIN": id_part("domain"),
    "NAME": id_part("name"),
    "VERSION": id_part("version"),
    "DESCRIPTION": lambda each: each["spec"].get("description"),
}
_VERSIONS = {"VERSION": id_part("version"), "NAME": id_part("name"), "CREATED AT": created_at}
_ONE = {
    "VERSION": id_part("version"),
    "NAME": id_part("name"),
    "INPUTS": _inputs,
    "OUTPUTS": _outputs,
    "CREATED AT": created_at,
}
