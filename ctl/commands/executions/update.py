"""`update execution`: archive it, or take it out of the archive."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import Option, dry_run_option, force_option
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session, local_user
from ctl.client.errors import InvalidInput
from ctl.client.executions import Execution
from ctl.commands.executions.options import EXECUTION_PARAMETERS, execution_id

_HELP = """Archive an execution, so that lists leave it out, or make it active again.

The phase does not change: an execution that is archived while it runs keeps running. Asks for confirmation on a
terminal.
"""


@command(
    help=_HELP,
    params=[
        *EXECUTION_PARAMETERS,
        Option(["--archive"], is_flag=True, help="Archive it."),
        Option(["--activate"], is_flag=True, help="Make it active again."),
        dry_run_option("Show what would change, and change nothing."),
        force_option("Do not ask."),
    ],
    examples=[
        "rainbowctl update execution nightly -p flytesnacks -d development --archive",
        "rainbowctl update execution flytesnacks/development/nightly --activate --force",
    ],
)
def update_execution(session: Session, name: str, **flags: Any) -> None:
    if flags["archive"] == flags["activate"]:
        remedy = "keep one of the two" if flags["archive"] else "give one of the two"
        raise InvalidInput(f"--archive or --activate is needed: {remedy}.")
    state = "ARCHIVED" if flags["archive"] else "ACTIVE"
    id = execution_id(session, name)
    current = Execution.from_document(session.client.execution(id))
    if current.state == state:
        _answer(session, current)
        session.printer.note(f"No changes: execution {id} is {state} already.")
        return
    if flags["dry_run"]:
        _answer(session, Execution.from_document({**current.document, "state": state}))
        session.printer.note(f"Execution {id} would be {state}. Dry run: nothing was written.")
        return
    if is_terminal() and not flags["force"]:
        confirm(f"Make execution {id} {state}?", "Not confirmed: nothing was written.")
    _answer(session, Execution.from_document(session.client.set_execution_state(id, state, claimed_by=local_user())))
    session.printer.note(f"Updated execution {id}: it is {state}.")


def _answer(session: Session, execution: Execution) -> None:
    session.printer.machine_output([execution.id.resource], execution.document)
