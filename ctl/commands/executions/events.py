"""`get execution-event`: what happened to an execution."""

from __future__ import annotations

from ctl.cli.groups import command
from ctl.cli.session import Session
from ctl.commands.executions.options import execution_id, execution_parameters
from ctl.commands.executions.tables import show_events


@command(
    "execution-event",
    help="Show what happened to an execution, oldest first: each event with its phase, cluster and reason.",
    params=execution_parameters(),
    examples=[
        "rainbowctl get execution-event nightly -p flytesnacks -d development",
        "rainbowctl get execution-events flytesnacks/development/nightly -o json",
    ],
)
def get_execution_event(session: Session, name: str) -> None:
    id = execution_id(session, name)
    events = list(session.client.execution_events(id))
    names = (f"execution-event/{id}/{event.get('number', '')}" for event in events)
    if not session.printer.machine_output(names, events):
        show_events(session, events)
