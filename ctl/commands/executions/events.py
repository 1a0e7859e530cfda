"""`get execution-event`: what happened to an execution."""

from __future__ import annotations

import click

from ctl.cli.groups import Command
from ctl.cli.options import domain_option, project_option
from ctl.cli.session import Session
from ctl.commands.executions.options import execution_id, name_argument
from ctl.commands.executions.tables import show_events


def get_execution_event() -> click.Command:
    def run(session: Session, name: str) -> None:
        id = execution_id(session, name)
        events = list(session.client.execution_events(id))
        names = (f"execution-event/{id}/{event.get('number', '')}" for event in events)
        if not session.printer.machine_output(names, events):
            show_events(session, events)

    return Command(
        "execution-event",
        run,
        help="Show what happened to an execution, oldest first: each event with its phase, cluster and reason.",
        takes=("project", "domain"),
        params=[name_argument(), project_option(), domain_option()],
        examples=[
            "rainbowctl get execution-event nightly -p flytesnacks -d development",
            "rainbowctl get execution-events flytesnacks/development/nightly -o json",
        ],
    )
