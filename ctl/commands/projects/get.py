"""`get project`."""

from __future__ import annotations

from ctl.cli.groups import command
from ctl.cli.options import Option, project_option
from ctl.cli.session import Session
from ctl.commands.projects.fields import id_argument, one_id, print_projects, read_project


@command(
    help="Show projects: all that are active, with -A the archived ones too, or one by its id.",
    params=[
        id_argument(),
        project_option("Id of one project, also as an argument."),
        Option(["-A", "--all", "all_states"], is_flag=True, help="Archived projects too."),
    ],
    examples=[
        "rainbowctl get project",
        "rainbowctl get project flyteexamples -o yaml",
        "rainbowctl get projects -A",
    ],
)
def get_project(session: Session, project: str | None, all_states: bool) -> None:
    typed = one_id({"the argument": project, "-p": session.typed.get("project")})
    if typed is not None:
        shown_project = read_project(session, typed)
        print_projects(session, [shown_project], shown_project)
        return
    projects = list(session.client.projects("ALL" if all_states else "ACTIVE"))
    empty = "There are no projects yet: `rainbowctl create project --id ID` creates one."
    print_projects(session, projects, projects, empty=empty)
