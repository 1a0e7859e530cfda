"""`create project`."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.session import Session, reasons
from ctl.client.errors import InvalidInput
from ctl.commands.previews import show_namespaces
from ctl.commands.projects.fields import (
    file_fields,
    flag_fields,
    ids,
    one_id,
    print_projects,
    project_parameters,
)
from ctl.files.projects import READ_ONLY


@command(
    help="Create a project. Its id cannot be changed; name, description and labels can.",
    params=project_parameters(
        "the new project", "Show what would be created, and which namespaces on which clusters; create nothing."
    ),
    examples=[
        "rainbowctl create project --id flyteexamples --name 'Flyte examples' --labels team=ml,tier=gold",
        "rainbowctl create project --file project.yaml",
    ],
)
def create_project(session: Session, **flags: Any) -> None:
    fields = file_fields(flags) if flags["file"] else flag_fields(flags)
    id = one_id(ids(session, flags) | {str(flags["file"]): fields.pop("id", None)})
    if id is None:
        raise InvalidInput("The project needs an id: give --id ID.")
    _refuse_decided(fields)
    if flags["dry_run"]:
        trial = session.client.create_project(id, dry_run=True, **fields)
        if session.printer.is_table:
            session.printer.line(f"Would create project {id}.")
            show_namespaces(session, trial)
        else:
            print_projects(session.printer, [trial], trial)
        session.printer.note("Dry run: nothing was created.")
        return
    created = session.client.create_project(id, **reasons(flags), **fields)
    if session.printer.is_table:
        session.printer.note(f"Created project {id}.")
    else:
        print_projects(session.printer, [created], created)


def _refuse_decided(fields: dict[str, Any]) -> None:
    for key in (*READ_ONLY, "version"):
        if key in fields:
            raise InvalidInput(f"{key} of a new project is set by the admin: remove it from the file.")
    if fields.pop("state", "ACTIVE") != "ACTIVE":
        raise InvalidInput("A new project is active; archive it with `rainbowctl update project ID --archive`.")
