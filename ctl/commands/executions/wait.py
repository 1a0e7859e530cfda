"""`wait execution`: until it is in a phase, on a cluster, or finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ctl.cli.groups import command
from ctl.cli.options import Option, text_option
from ctl.cli.session import Session
from ctl.client.errors import EndedOtherwise, InvalidInput
from ctl.client.executions import Execution, ExecutionId, parse_phase
from ctl.client.facts import FINISHED_PHASES
from ctl.client.times import format_duration, parse_duration
from ctl.client.words import listed
from ctl.commands.executions.follow import follow
from ctl.commands.executions.options import EXECUTION_PARAMETERS, execution_id
from ctl.commands.executions.tables import print_execution

_HELP = """Wait for a condition of an execution, and exit with 0 as soon as it holds.

--for is phase=PHASE, or several phases separated by commas; cluster=NAME, placed on that cluster; placed, on any
cluster; or finished, in any final phase, the default. A phase that the execution has already passed through counts.

If the condition can no longer hold, or the timeout is over, the exit status is 9.
"""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is waited for."""

    words: str
    is_reached: Callable[[Execution], bool]
    phases: frozenset[str] = frozenset()  #: that count even if they have passed


def parse_goal(text: str) -> Goal:
    """The goal that `--for` names."""
    key, equals, value = text.strip().partition("=")
    word = key.strip().lower()
    if word == "phase" and value.strip(" ,"):
        return _of_phases(frozenset(parse_phase(part.strip(), "--for") for part in value.split(",")))
    if word == "cluster" and value.strip():
        name = value.strip()
        return Goal(words=f"on cluster {name}", is_reached=lambda execution: execution.cluster == name)
    if word == "placed" and not equals:
        return Goal(words="placed", is_reached=lambda execution: bool(execution.cluster))
    if word == "finished" and not equals:
        return Goal(words="finished", is_reached=lambda execution: execution.is_finished)
    raise InvalidInput(
        f"--for must be phase=PHASE, or several with commas, cluster=NAME, placed or finished, got {text!r}."
    )


def _of_phases(phases: frozenset[str]) -> Goal:
    return Goal(
        words=listed(sorted(phases), "or"),
        is_reached=lambda execution: execution.phase in phases,
        phases=phases - FINISHED_PHASES,
    )


@command(
    help=_HELP,
    params=[
        *EXECUTION_PARAMETERS,
        Option(["--for", "goal"], metavar="GOAL", default="finished", show_default=True, help="Condition to wait for."),
        text_option(
            "timeout",
            parameter="limit",
            metavar="DURATION",
            help="How long to wait: 90s, 5m, 1h30m; without limit by default.",
        ),
    ],
    examples=[
        "rainbowctl wait execution nightly -p flytesnacks -d development --for=phase=SUCCEEDED --timeout 5m",
        "rainbowctl wait execution nightly -p flytesnacks -d development --for=phase=SUCCEEDED,FAILED",
        "rainbowctl wait execution flytesnacks/development/nightly --for=placed --timeout 30s",
        "rainbowctl wait execution nightly -p flytesnacks -d development --for=cluster=east",
    ],
)
def wait_execution(session: Session, name: str, goal: str, limit: str | None) -> None:
    parsed = parse_goal(goal)
    seconds = None if limit is None else parse_duration(limit, "--timeout")
    id = execution_id(session, name)
    last = None
    for last in follow(session, id, seconds=seconds):
        if parsed.is_reached(last):
            print_execution(session, last)
            session.printer.note(f"Execution {id} is {last.summary()}.")
            return
    assert last is not None, "following starts with the execution as it is"
    if last.is_finished:
        _passed_through(session, id, parsed, last)
        return
    print_execution(session, last)
    waited = f"{seconds:g} s" if seconds and seconds < 60 else format_duration(seconds or 0)
    raise EndedOtherwise(f"Execution {id} was not {parsed.words} within {waited}: it is {last.summary()}.")


def _passed_through(session: Session, id: ExecutionId, goal: Goal, last: Execution) -> None:
    """Check by its events whether an execution was in a phase and left it between two reads."""
    print_execution(session, last)
    if goal.phases:
        passed = [event for event in session.client.execution_events(id) if event.get("phase") in goal.phases]
        if passed:
            session.printer.note(f"Execution {id} was {passed[0]['phase']} and is {last.summary()}.")
            return
    raise EndedOtherwise(f"Execution {id} can no longer be {goal.words}: it is {last.summary()}.")
