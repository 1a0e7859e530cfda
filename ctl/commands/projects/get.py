"""`get project`."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice, typed_choice
from ctl.cli.options import Option, project_option
from ctl.cli.session import Session
from ctl.commands.projects.fields import id_argument, one_id, print_projects, read_project, with_provenance

_FIELDS = ("id", "name", "description", "state", "created_at", "updated_at")
_LISTING = Listing(
    fields={name: name for name in _FIELDS},
    aliases={"identifier": "id"},
    prefixes=("project",),
    states=("ACTIVE", "ARCHIVED"),
)


@command(
    help="Show projects: all that are active, with -A the archived ones too, or one by its id.",
    params=[
        id_argument(),
        project_option("Id of one project, also as an argument."),
        Option(["-A", "--all", "all_states"], is_flag=True, help="Archived projects too."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get project",
        "rainbowctl get project flyteexamples -o yaml",
        "rainbowctl get projects -A",
        "rainbowctl get project --filter.fieldSelector 'name contains ml' --filter.sortBy created_at --filter.limit 10",
    ],
)
def get_project(session: Session, project: str | None, all_states: bool, **flags: Any) -> None:
    typed = one_id({"the argument": project, "-p": session.typed.get("project")})
    if typed is not None:
        refuse_choice(flags, typed)
        shown_project = read_project(session, typed, provenance=with_provenance(session))
        print_projects(session.printer.folded(), [shown_project], shown_project)
        return
    state = "ALL" if all_states else "ACTIVE"
    listed = session.client.projects(state, provenance=with_provenance(session))
    projects = choose_rows(session, listed, flags, _LISTING, "project", by="state")
    empty = "There are no projects yet: `rainbowctl create project --id ID` creates one."
    if typed_choice(flags):
        empty = "No projects match; -A looks among archived ones too."
    print_projects(session.printer, projects, projects, empty=empty)
