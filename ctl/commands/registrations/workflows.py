"""Workflows: jobs with typed inputs, registered under versions. A task is one too."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import Command
from ctl.cli.output import id_part
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.calls.registrations import WORKFLOW, Identifier
from ctl.commands.registrations.versions import REGISTERED, Reading, read_parameters, version_listing
from ctl.files.execution_samples import Sample

_HELP = """Show the {noun}s of a project and domain, each with its newest version; with NAME, all versions of one; with
--version or --latest, one version with its inputs and outputs.{about}

--execFile writes a file for `rainbowctl create execution --execFile`, with a value for each input: of --version, else
of the newest version.
"""


def show_inputs(inputs: Document) -> str:
    """Declared inputs in one table cell: `epochs (integer), rate (float)`."""
    types = {name: entry.get("type") if isinstance(entry, dict) else entry for name, entry in inputs.items()}
    return ", ".join(f"{name} ({type})" for name, type in types.items())


def _inputs(workflow: Document) -> Document:
    return workflow["spec"].get("inputs") or {}


def _outputs(workflow: Document) -> str:
    return ", ".join((workflow["spec"].get("job") or {}).get("outputs") or [])


def _read(session: Session, id: Identifier, is_chosen: bool) -> Document:
    return session.client.registration(WORKFLOW, id)


def _sample(session: Session, workflow: Document) -> Sample:
    return Sample(key="task", inputs=_inputs(workflow), defaults={}, fixed={})


_NAMES = {"VERSION": id_part("version"), "NAME": id_part("name")}
_LISTING = version_listing("workflow", "task")


def _get(noun: str, about: str) -> Command:
    reading = Reading(
        noun=WORKFLOW,
        word=noun,
        title=noun,
        columns={
            "PROJECT": id_part("project"),
            "DOMAIN": id_part("domain"),
            "NAME": id_part("name"),
            "VERSION": id_part("version"),
            "DESCRIPTION": lambda workflow: workflow["spec"].get("description"),
        },
        version_columns={**_NAMES, **REGISTERED},
        single_columns={
            **_NAMES,
            "INPUTS": lambda workflow: show_inputs(_inputs(workflow)),
            "OUTPUTS": _outputs,
            **REGISTERED,
        },
        read=_read,
        sample=_sample,
        listing=_LISTING,
        wide_columns=REGISTERED,
    )

    def run(session: Session, name: str | None, **flags: Any) -> None:
        reading.run(session, name, flags)

    return Command(
        run,
        help=_HELP.format(noun=noun, about=about),
        params=read_parameters(noun, _LISTING),
        examples=[
            f"rainbowctl get {noun} -p flytesnacks -d development",
            f"rainbowctl get {noun} -p flytesnacks -d development --filter.fieldSelector 'name contains train'",
            f"rainbowctl get {noun} train -p flytesnacks -d development --latest -o yaml",
            f"rainbowctl get {noun} train -p flytesnacks -d development --execFile run.yaml",
        ],
    )


get_workflow = _get("workflow", "")
get_task = _get("task", " A task is registered as a workflow: this is the same as `get workflow`.")
